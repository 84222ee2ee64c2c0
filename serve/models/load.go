package models

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"mm-abi.org/mm/runtimes"
)

// loading returns the load of a model, which it starts if necessary. The pool is locked.
func (p *Pool) loading(m *Model) *load {
	if m.load == nil {
		m.load = &load{done: make(chan struct{})}
		l := m.load
		p.work.Go(func() { p.run(m, l) })
	}
	return m.load
}

// run loads a model once there is room.
func (p *Pool) run(m *Model, l *load) {
	err := p.room(m.src.Bytes)
	var i *instance
	if err == nil {
		i, err = p.open(m.src)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m.load = nil
	if err != nil {
		if !errors.Is(err, errNoRoom) {
			p.free(m.src.Bytes)
		}
		l.err = failed(m.src.Build, err)
		close(l.done)
		return
	}
	l.inst = i
	p.use(i, l.waiters)
	if m.next == nil && !p.ended {
		m.inst = i
	} else {
		p.retire(i)
	}
	close(l.done)
}

// open opens and loads a model, whose room was taken.
func (p *Pool) open(src Source) (i *instance, err error) {
	defer func() {
		if v := recover(); v != nil { // in a goroutine of no request, it would end the server
			i, err = nil, fmt.Errorf("internal error: %v", v)
		}
	}()
	start := time.Now()
	inst, err := src.Open(p.ctx)
	if err != nil {
		return nil, err
	}
	if err := inst.Load(p.ctx); err != nil {
		return nil, errors.Join(err, inst.Close())
	}
	p.mu.Lock()
	p.loads++
	p.mu.Unlock()
	p.opt.Log(fmt.Sprintf("loaded %s in %v", id(src.Build), time.Since(start).Round(time.Millisecond)))
	return &instance{Instance: inst, bytes: src.Bytes, name: id(src.Build)}, nil
}

// room waits until a model fits into the limits, and takes its room. Loads wait in the order
// of arrival.
func (p *Pool) room(bytes int64) error {
	select {
	case p.turn <- struct{}{}:
	case <-p.ctx.Done():
		return errNoRoom
	}
	defer func() { <-p.turn }()
	for {
		p.mu.Lock()
		p.shrink(bytes, 1)
		if p.fits(bytes) {
			p.held, p.bytes = p.held+1, p.bytes+bytes
			p.mu.Unlock()
			return nil
		}
		freed := p.freed
		p.mu.Unlock()
		select {
		case <-freed:
		case <-p.ctx.Done():
			return errNoRoom
		}
	}
}

// errNoRoom is the error of a load that the end of the pool found without room.
var errNoRoom = fmt.Errorf("the models are %w", runtimes.ErrClosed)

// fits reports whether a further model has room.
func (p *Pool) fits(bytes int64) bool { return p.within(p.held+1, p.bytes+bytes) }

// within reports whether a number of models and their bytes are within the limits.
func (p *Pool) within(n int, bytes int64) bool {
	return (p.opt.Loaded == 0 || n <= p.opt.Loaded) && (p.opt.Memory == 0 || bytes <= p.opt.Memory)
}

// shrink retires the models that were not used for the longest time, until n further ones
// with bytes fit once these are closed.
func (p *Pool) shrink(bytes int64, n int) {
	held, all := p.held+n, p.bytes+bytes
	for _, i := range p.leaving {
		held, all = held-1, all-i.bytes
	}
	for !p.within(held, all) {
		m := p.oldest()
		if m == nil {
			return
		}
		i := m.inst
		m.inst = nil
		p.retire(i)
		held, all = held-1, all-i.bytes
	}
}

// oldest returns the model to close: an idle one, otherwise one in use.
func (p *Pool) oldest() (found *Model) {
	for _, m := range p.models {
		if m.inst == nil {
			continue
		}
		if found == nil {
			found = m
			continue
		}
		idle, best := m.inst.users == 0, found.inst.users == 0
		if idle && !best || idle == best && m.inst.used < found.inst.used {
			found = m
		}
	}
	return found
}

// retire closes an instance after its last answer.
func (p *Pool) retire(i *instance) {
	i.left = true
	p.leaving = append(p.leaving, i)
	if i.users == 0 {
		p.shut(i)
	}
}

// shut closes an instance and frees its room.
func (p *Pool) shut(i *instance) {
	p.work.Go(func() {
		err := i.Close()
		p.opt.Log("closed " + i.name)
		p.mu.Lock()
		p.faults = append(p.faults, err)
		p.leaving = slices.DeleteFunc(p.leaving, func(one *instance) bool { return one == i })
		p.free(i.bytes)
		p.mu.Unlock()
	})
}

// free frees the room of a model. The pool is locked.
func (p *Pool) free(bytes int64) {
	p.held, p.bytes = p.held-1, p.bytes-bytes
	close(p.freed)
	p.freed = make(chan struct{})
}

// Replace loads a newer version of a model. From then on it gets all requests for the model;
// the answers that run finish on the old version, which is closed afterwards. If it cannot be
// loaded, the old version remains.
func (p *Pool) Replace(m *Model, src Source) (*Model, error) {
	if err := p.check(src); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return nil, runtimes.ErrClosed
	}
	p.held, p.bytes = p.held+1, p.bytes+src.Bytes
	p.mu.Unlock()
	i, err := p.open(src)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.free(src.Bytes)
		return nil, err
	}
	next := &Model{pool: p, src: src, inst: i}
	p.use(i, 0)
	for n, one := range p.models {
		if one == m {
			p.models[n] = next
		}
	}
	m.next = next
	if old := m.inst; old != nil {
		m.inst = nil
		p.retire(old)
	}
	p.shrink(0, 0)
	return next, nil
}

// Close ends the loads and closes all models. Answers must have ended.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.ended = true
	for _, m := range p.models {
		if i := m.inst; i != nil {
			m.inst = nil
			p.retire(i)
		}
	}
	p.mu.Unlock()
	p.stop()
	p.work.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.faults...)
}
