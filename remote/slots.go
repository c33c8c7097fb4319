package remote

import (
	"context"
	"sync"
)

// slots counts the sessions on one connection. sshd refuses more than its
// MaxSessions; that number cannot be asked for, only run into.
type slots struct {
	mu      sync.Mutex
	limit   int
	open    int
	waiting int
	freed   chan struct{} // closed and replaced at each release
}

func newSlots(limit int) *slots { return &slots{limit: limit, freed: make(chan struct{})} }

// acquire waits for a place. It calls wanted each time it begins to wait, for
// who holds a place without need.
func (s *slots) acquire(ctx context.Context, wanted func()) error {
	for {
		s.mu.Lock()
		if s.open < s.limit {
			s.open++
			s.mu.Unlock()
			return nil
		}
		freed := s.freed
		s.waiting++
		s.mu.Unlock()
		wanted()
		var err error
		select {
		case <-freed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// force takes a place whatever the limit.
func (s *slots) force() {
	s.mu.Lock()
	s.open++
	s.mu.Unlock()
}

func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	close(s.freed)
	s.freed = make(chan struct{})
}

// refused gives back a place that the server refused, lowers the limit to what
// is open now, and returns that number.
func (s *slots) refused() int {
	s.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = max(1, min(s.limit, s.open))
	return s.open
}

// single says whether the server takes one session only.
func (s *slots) single() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit == 1
}

// free is the number of places that are not taken.
func (s *slots) free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit - s.open
}

// wanted says whether someone waits for a place.
func (s *slots) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting > 0
}
