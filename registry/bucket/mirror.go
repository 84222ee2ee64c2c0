package bucket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"mm-abi.org/mm/internal/fsx"
)

// stateName is the object next to the checkpoints of a run that names the last.
const stateName = "run.json"

const maxState = 64 << 10 // bytes of the state of a mirror

// State describes the last checkpoint that a bucket holds.
type State struct {
	Name   string `json:"name"`
	Step   int    `json:"step"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// MirrorOptions configures [NewMirror].
type MirrorOptions struct {
	Sessions Sessions
	Report   func(text string) // receives failures and successes. Nil: none
	Grace    time.Duration     // of Close for files that still wait. Zero: five minutes
	Cuts     Cuts              // offsets at which a file divides into pieces, of which only new ones are sent. Nil: none
}

// Mirror copies files of a run to a bucket while the run goes on. It never blocks
// the run and never fails it: failures are reported through Report, and a later
// version of a file replaces one that still waits.
type Mirror struct {
	b     Bucket
	place Address
	opt   MirrorOptions

	mu      sync.Mutex
	waiting map[string]task // by name
	order   []string
	failed  int
	wake    chan struct{}
	cancel  context.CancelFunc
	done    chan struct{}

	sweeper sweeper // of the goroutine that copies
}

// task is a file to copy.
type task struct {
	path string
	data []byte // instead of a file, if not nil
	step int
	last bool
	once bool // the file is removed afterwards
}

// NewMirror starts a mirror of a run below an address. The caller closes it.
func NewMirror(ctx context.Context, b Bucket, place Address, opt MirrorOptions) *Mirror {
	if opt.Report == nil {
		opt.Report = func(string) {}
	}
	if opt.Grace == 0 {
		opt.Grace = 5 * time.Minute
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // an interrupted run saves its last checkpoint too
	m := &Mirror{b: b, place: place, opt: opt, waiting: map[string]task{}, wake: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{})}
	go m.run(ctx)
	return m
}

// Save copies the file at path under a name. If last is set, the bucket's state
// names it afterwards as the checkpoint to resume from.
func (m *Mirror) Save(name, path string, step int, last bool) {
	m.add(name, task{path: path, step: step, last: last})
}

// SaveBytes writes data under a name.
func (m *Mirror) SaveBytes(name string, data []byte, step int) {
	m.add(name, task{data: data, step: step})
}

// Keep copies the file at path as it is now under a name, whatever replaces it
// meanwhile: a link of it waits next to it.
func (m *Mirror) Keep(name, path string, step int) {
	link, err := linkOf(path, ".mirror-"+name)
	if err != nil {
		m.fail(name, step, err)
		return
	}
	m.add(name, task{path: link, step: step, once: true})
}

// linkOf links the file at path under another name in its folder.
func linkOf(path, name string) (string, error) {
	d, err := fsx.Open(filepath.Dir(path), fsx.Options{})
	if err != nil {
		return "", err
	}
	defer d.Close()
	if err := ignoreMissing(d.Remove(name)); err != nil {
		return "", err
	}
	_, err = d.LinkOrCopy(path, name, 0o644)
	return filepath.Join(d.Path(), name), err
}

// fail counts and reports a file that was not copied.
func (m *Mirror) fail(name string, step int, err error) {
	m.mu.Lock()
	m.failed++
	m.mu.Unlock()
	m.opt.Report(fmt.Sprintf("%s of step %d was not saved: %v; the run goes on", m.place.Under(name), step, err))
}

func (m *Mirror) add(name string, t task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, waits := m.waiting[name]; !waits {
		m.order = append(m.order, name)
	}
	m.waiting[name] = t
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take returns the next task.
func (m *Mirror) take() (string, task, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.order) == 0 {
		return "", task{}, false
	}
	name := m.order[0]
	t := m.waiting[name]
	m.order = m.order[1:]
	delete(m.waiting, name)
	return name, t, true
}

// run copies until the mirror is closed and nothing waits.
func (m *Mirror) run(ctx context.Context) {
	defer close(m.done)
	for range m.wake {
		for {
			name, t, ok := m.take()
			if !ok {
				break
			}
			sent, err := m.copy(ctx, name, t)
			if err != nil {
				m.fail(name, t.step, err)
				continue
			}
			m.opt.Report(fmt.Sprintf("saved %s of step %d (%s sent)", m.place.Under(name), t.step, fsx.FormatSize(sent)))
		}
	}
}

// copy copies one file. It returns the number of bytes sent.
func (m *Mirror) copy(ctx context.Context, name string, t task) (sent int64, err error) {
	at := m.place.Under(name)
	if t.data != nil {
		info, err := PutBytes(ctx, m.b, at.Key, t.data, false)
		return info.Size, err
	}
	if t.once {
		defer func() { err = errors.Join(err, fsx.RemoveAll(t.path)) }()
	}
	cuts := m.opt.Cuts
	if cuts == nil {
		cuts = func(io.ReaderAt, int64) ([]int64, error) { return nil, nil }
	}
	info, sent, err := UploadDelta(ctx, m.b, at.Key, t.path, cuts, UploadOptions{Sessions: m.opt.Sessions, Place: at.String()})
	if err != nil {
		return sent, err
	}
	if t.last {
		data, err := json.Marshal(State{name, t.step, info.Size, info.SHA256})
		if err != nil {
			return sent, err
		}
		if _, err = PutBytes(ctx, m.b, m.place.Under(stateName).Key, data, false); err != nil {
			return sent, err
		}
	}
	if m.opt.Cuts != nil {
		if err := m.sweeper.sweep(ctx, m.b, m.place); err != nil {
			m.opt.Report(fmt.Sprintf("old pieces below %s were not removed: %v", m.place, err))
		}
	}
	return sent, nil
}

// Close waits for the copies in progress, at most the grace time, and returns the
// number of copies that failed.
func (m *Mirror) Close() (failed int) {
	close(m.wake)
	select {
	case <-m.done:
	case <-time.After(m.opt.Grace):
		m.cancel()
		<-m.done
	}
	m.cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// ReadState returns the state of the run below an address. A bucket without one
// is [ErrMissing].
func ReadState(ctx context.Context, b Bucket, place Address) (State, error) {
	var s State
	data, err := GetBytes(ctx, b, place.Under(stateName).Key, maxState)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil || s.Step < 0 || s.Size < 0 || !IsDigest(s.SHA256) || CheckKey(s.Name) != nil {
		return s, fmt.Errorf("%w: %s: want a name, a step, a size and a sha256", ErrAnswer, place.Under(stateName))
	}
	return s, nil
}

// Restore downloads the checkpoint of a state and the other files by their names
// into dir. Missing other files are left out.
func Restore(ctx context.Context, b Bucket, place Address, s State, dir string, others ...string) error {
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	download := func(at Address, name string, opt DownloadOptions) error {
		b, err := Assembled(ctx, b, at.Key)
		if err == nil {
			_, _, err = Download(ctx, b, at.Key, d, name, opt)
		}
		return err
	}
	for _, name := range others {
		at := place.Under(name)
		if err := download(at, name, DownloadOptions{Place: at.String(), Digested: true}); err != nil && !errors.Is(err, ErrMissing) {
			return &CopyError{at.String(), err}
		}
	}
	at := place.Under(s.Name)
	if err := download(at, s.Name, DownloadOptions{Place: at.String(), SHA256: s.SHA256}); err != nil {
		return &CopyError{at.String(), err}
	}
	return nil
}
