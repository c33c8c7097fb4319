package experiments

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"specrun/deploy/server"
)

// lookLease says what is going to be leased. An automatic port is chosen by the
// host when it is leased. Leases run out, so they are always taken (anew).
func (a *attempt) lookLease(ctx context.Context) (Found, any, error) {
	cards, err := a.x.cards(ctx, a.cfg)
	if err != nil {
		return Absent, nil, err
	}
	a.cards = cards
	if a.port == 0 {
		a.port = a.cfg.Port
	}
	a.leases = leaseEvidence{Port: a.port, Names: server.GPULeases(cards)}
	if a.port != 0 {
		a.leases.Names = append([]string{server.PortLease(a.port)}, a.leases.Names...)
	}
	return Partial, a.leases, nil
}

func (a *attempt) doLease(ctx context.Context) (any, error) {
	if err := a.x.held.want(ctx, a, a.where().key(), a.cfg.Patches); err != nil {
		return nil, err
	}
	a.lookAhead(ctx)
	q := server.LeaseRequest{Names: server.GPULeases(a.cards), Owner: a.owner(), Parent: a.x.holder, TTL: a.x.deps.LeaseTTL, Port: portRequest(a.cfg, a.rec.ID, a.port)}
	var grant server.Grant
	err := a.x.waiting(ctx, a, func() (err error) {
		grant, err = a.x.host.Leases.Acquire(ctx, q)
		return err
	})
	if err != nil {
		a.ahead.cancel()
		return nil, err
	}
	a.port = grant.Port // kept when the step is taken again
	a.leases = leaseEvidence{Port: grant.Port, Names: grant.Names(q)}
	a.keeper.start(a.x, a.leases.Names, a.owner())
	return a.leases, nil
}

// undoLease gives back everything that the launch has, whether its names were
// heard or not; nothing is left when the stop did so.
func (a *attempt) undoLease(ctx context.Context) (any, error) {
	if a.proof != nil && a.proof.Released {
		return a.leases, nil
	}
	return a.leases, a.x.host.Leases.Release(ctx, nil, a.owner())
}

func (a *attempt) owner() server.Owner {
	what := a.x.forPeople()
	if a.x.sweepID == "" {
		what = byHand
	}
	return server.Owner{Launch: a.rec.ID, Controller: a.x.deps.Controller, What: what}
}

// NoGPUError says that a host has no such GPU.
type NoGPUError struct {
	Host  string
	Index string
	Have  []string // indexes
}

func (e *NoGPUError) Error() string {
	return fmt.Sprintf("%s: server.gpus: there is no GPU %s, only %s", e.Host, e.Index, strings.Join(e.Have, ", "))
}

// Hint says what to write.
func (e *NoGPUError) Hint() string { return "indexes are those of nvidia-smi -L on the host" }

// cards name a server's GPUs for its leases and for CUDA_VISIBLE_DEVICES: by UUID,
// so that one card has one name for everybody whatever order CUDA counts in, and by
// index where the host has no nvidia-smi. nil is all.
func (x *execution) cards(ctx context.Context, cfg ServerConfig) ([]string, error) {
	gpus := indexes(cfg)
	if gpus == nil {
		return nil, nil
	}
	facts, err := x.hostFacts(ctx, cfg.where())
	if err != nil {
		return nil, err
	}
	uuids := map[string]string{}
	var have []string
	for _, f := range facts {
		if index, ok := strings.CutSuffix(f.Key, " uuid"); ok && f.Group == "gpu" && strings.HasPrefix(f.Value, "GPU-") {
			uuids[index] = f.Value
			have = append(have, index)
		}
	}
	if len(uuids) == 0 {
		return gpus, nil
	}
	for i, index := range gpus {
		uuid, ok := uuids[index]
		if !ok {
			slices.Sort(have)
			return nil, &NoGPUError{Host: x.host.Name, Index: index, Have: have}
		}
		gpus[i] = uuid
	}
	return gpus, nil
}

// indexes are a server's GPUs as nvidia-smi counts them; nil for all.
func indexes(cfg ServerConfig) []string {
	var out []string
	for _, g := range cfg.GPUs {
		out = append(out, strconv.Itoa(g))
	}
	return out
}

func (a *attempt) gpus() []string { return indexes(a.cfg) }

// ahead is a look at the patch set beside the leasing: each of the two is one
// answer from the host that is waited for.
type ahead struct {
	stop  context.CancelFunc
	done  chan struct{}
	state PatchState
	err   error
}

// lookAhead begins to look at the engine's files, when the sweep knows already what
// it found: nobody changes them while it has the lease on them.
func (a *attempt) lookAhead(ctx context.Context) {
	if a.x.found == nil || a.ahead != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	look := &ahead{stop: stop, done: make(chan struct{})}
	a.ahead = look
	patcher, where := a.x.host.Patcher, a.where()
	go func() {
		defer close(look.done)
		look.state, look.err = patcher.Current(ctx, where)
	}()
}

// cancel ends the look, if there is one, and waits for its end.
func (l *ahead) cancel() {
	if l != nil {
		l.stop()
		<-l.done
	}
}

// current is what is deployed: what was looked at ahead, once, else asked now.
func (a *attempt) current(ctx context.Context) (PatchState, error) {
	look := a.ahead
	if look == nil {
		return a.x.host.Patcher.Current(ctx, a.where())
	}
	a.ahead = nil
	<-look.done
	look.stop()
	if look.err != nil && ctx.Err() == nil {
		return a.x.host.Patcher.Current(ctx, a.where())
	}
	return look.state, look.err
}

// beside asks which other launches were on the host during this one, beside what is
// done until the answer is called for, which may be repeated and waits for it.
func (a *attempt) beside(ctx context.Context) (answer func() ([]string, error)) {
	if a.cfg.Attach != nil {
		return func() ([]string, error) { return nil, nil } // it has leased nothing
	}
	type met struct {
		launches []string
		err      error
	}
	done := make(chan met, 1)
	leases, port := a.x.host.Leases, a.leases.Port
	go func() {
		var m met
		m.launches, m.err = leases.Met(ctx, port)
		done <- m
	}()
	return sync.OnceValues(func() ([]string, error) {
		m := <-done
		if m.err != nil {
			return nil, fmt.Errorf("who else was on the host: %w", m.err)
		}
		return m.launches, nil
	})
}
