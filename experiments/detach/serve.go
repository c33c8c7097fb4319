package detach

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"specrun/experiments"
	"specrun/experiments/bench"
)

// ErrTaken says that another process has the sweep.
var ErrTaken = errors.New("another process has this sweep")

// nowEvery is how often followers are told what is going on: what they see is a
// line of text.
const nowEvery = time.Second

// Server is the process's hold on its folder. It is safe for concurrent use.
type Server struct {
	dir     string
	now     func() time.Time
	lock    *os.File
	beganUs int64

	mu     sync.Mutex
	events *os.File
	toldAt time.Time // of what is going on
	failed error     // the first event that could not be written
}

// Serve takes the folder of a sweep for this process, which leaves the session
// it was started in: ErrTaken when another one has it. It tells followers that
// it began. End gives it back. It needs linux.
func Serve(dir, controller string, now func() time.Time) (*Server, error) {
	// Fails only for a process that leads its group already, as one does that was
	// started by hand.
	if _, err := syscall.Setsid(); err != nil && !errors.Is(err, syscall.EPERM) {
		return nil, fmt.Errorf("leave the session: %w", err)
	}
	// The kernel gives the lock back however the process ends.
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrTaken
		}
		return nil, errors.Join(fmt.Errorf("take %s: %w", dir, err), lock.Close())
	}
	s := &Server{dir: dir, now: now, lock: lock, beganUs: now().UnixMicro()}
	if err := s.begin(controller); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// begin shows the process to who looks. At each moment of it the folder says that
// a process runs, or what it said before: the end of an earlier process goes when
// this one is seen, since one that has neither an end nor life is taken for killed.
func (s *Server) begin(controller string) error {
	if err := remove(filepath.Join(s.dir, nowFile)); err != nil {
		return err
	}
	if err := s.reserve(); err != nil {
		return err
	}
	var err error
	if s.events, err = openEvents(filepath.Join(s.dir, eventsFile)); err != nil {
		return err
	}
	if err := s.append(Event{AtUs: s.beganUs, Began: controller}); err != nil {
		return err
	}
	me, err := bench.Identity()
	if err != nil {
		return err
	}
	identity := filepath.Join(s.dir, identityFile)
	if err := replace(identity, []byte(me)); err != nil {
		return err
	}
	if err := s.share(identity); err != nil {
		return err
	}
	return remove(filepath.Join(s.dir, endFile))
}

// share lets those who may enter the folder see who the process is, and nothing
// else: the group that shares the state folder.
func (s *Server) share(identity string) error {
	info, err := os.Stat(s.dir)
	if err != nil || info.Mode().Perm()&0o010 == 0 {
		return err
	}
	return os.Chmod(identity, 0o640)
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// openEvents opens the events for appending. A process that was killed may have
// left half a line, which is no event.
func openEvents(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil && end > 0 {
		last := make([]byte, 1)
		if _, err = f.ReadAt(last, end-1); err == nil && last[0] != '\n' {
			_, err = f.WriteString("\n")
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Tell tells followers of a progress: what a step says while it lasts at most
// once a second, anything else as a line. It does not fail: a sweep is not ended
// because nobody can be told of it; End says so.
func (s *Server) Tell(p experiments.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.now()
	e := NewEvent(p, at.UnixMicro())
	var err error
	if p.Phase != experiments.PhaseNote {
		err = s.append(e)
		s.toldAt = time.Time{}
	}
	if p.Phase == experiments.PhaseBegin || p.Phase == experiments.PhaseNote && at.Sub(s.toldAt) >= nowEvery {
		s.toldAt = at
		var text []byte
		if text, err = json.Marshal(e); err == nil {
			err = replace(filepath.Join(s.dir, nowFile), append(text, '\n'))
		}
	}
	if s.failed == nil {
		s.failed = err
	}
}

func (s *Server) append(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = s.events.Write(append(line, '\n'))
	return err
}

// End says how the sweep ended and gives the folder back. The error is that of
// writing it.
func (s *Server) End(e End) error {
	e.AtUs, e.BeganUs = s.now().UnixMicro(), s.beganUs
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := json.Marshal(e)
	if err == nil {
		err = s.sayEnd(append(text, '\n'))
	}
	if s.failed != nil {
		err = errors.Join(err, fmt.Errorf("tell followers: %w", s.failed))
	}
	return errors.Join(err, s.close())
}

// reserved is how long a text of an end is sure to find room.
const reserved = 64 << 10

// reserve takes the room that the end needs, while there is some: a disk that has
// become full is the very thing that it has to tell.
func (s *Server) reserve() error {
	return os.WriteFile(filepath.Join(s.dir, reserveFile), make([]byte, reserved), 0o600)
}

func (s *Server) sayEnd(text []byte) error {
	end, spare := filepath.Join(s.dir, endFile), filepath.Join(s.dir, reserveFile)
	err := replace(end, text)
	if err == nil {
		return remove(spare)
	}
	if len(text) > reserved {
		return err
	}
	f, spareErr := os.OpenFile(spare, os.O_WRONLY, 0)
	if spareErr != nil {
		return errors.Join(err, spareErr)
	}
	// In its place: no byte more is needed.
	_, spareErr = f.Write(text)
	if spareErr == nil {
		spareErr = f.Truncate(int64(len(text)))
	}
	if spareErr = errors.Join(spareErr, f.Close()); spareErr == nil {
		spareErr = os.Rename(spare, end)
	}
	if spareErr != nil {
		return errors.Join(err, spareErr)
	}
	return nil
}

func (s *Server) close() error {
	var err error
	if s.events != nil {
		err = s.events.Close()
	}
	return errors.Join(err, s.lock.Close())
}

// replace writes a file so that readers see the old content or the new, also
// after a crash of the machine.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && !strings.HasSuffix(path, nowFile) { // which is not worth a disk access in a measurement
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
