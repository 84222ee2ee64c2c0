package fsxtest

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/internal/fsx"
)

// Recorder records every call below a folder and can recreate the folder as a power failure
// after any of them may leave it.
//
// The model is stricter than any journaling file system: the bytes of a file are safe only
// after a sync of that file, an entry of a folder only after a sync of that folder, and of
// everything else any part may be lost while any other is kept, in any order. A rename is
// one entry change of its target's folder: it happens completely or not at all. Permissions
// and times are not modeled; folders are never renamed.
type Recorder struct {
	top   string
	base  map[string]int // names before the first call
	bytes map[int][]byte // content by inode; nil for a folder

	mu    sync.Mutex
	log   []event
	names map[string]int    // the present names
	open  map[*fsx.File]int // the files being written
	last  int               // last inode number
}

// event is a successful call. Names are relative to top.
type event struct {
	kind fsx.Kind
	name string // the entry that it makes, changes or removes
	from string // the entry that a rename removes
	ino  int    // file or folder
	data []byte // written bytes, or the content of a linked file
	size int64
}

// entry reports whether the event changes a folder rather than a file's bytes.
func (e event) entry() bool { return e.kind != fsx.OpWrite && e.kind != fsx.OpTruncate }

// Record starts recording below the folder top, whose present content is safe.
func Record(top string) (*Recorder, error) {
	r := &Recorder{top: top, base: map[string]int{}, bytes: map[int][]byte{}, names: map[string]int{}, open: map[*fsx.File]int{}}
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == top {
			return err
		}
		r.last++
		if !d.IsDir() {
			if r.bytes[r.last], err = os.ReadFile(p); err != nil {
				return err
			}
		}
		r.base[r.rel(p)], r.names[r.rel(p)] = r.last, r.last
		return nil
	})
	return r, err
}

// Hook is the [fsx.Hook] to set.
func (r *Recorder) Hook(op *fsx.Op, do func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	e := event{kind: op.Kind, size: op.Size, data: slices.Clone(op.Data)}
	if op.Name != "" {
		e.name = r.rel(filepath.Join(op.Root, op.Name))
	}
	switch op.Kind {
	case fsx.OpMkdir, fsx.OpCreate, fsx.OpAppend, fsx.OpLock, fsx.OpTouch:
		if e.ino = r.names[e.name]; e.ino == 0 {
			r.last++
			e.ino, r.names[e.name] = r.last, r.last
		}
		if op.File != nil {
			r.open[op.File] = e.ino
		}
	case fsx.OpLink:
		e.name = r.rel(filepath.Join(op.Root, op.To))
		r.last++
		e.ino, r.names[e.name] = r.last, r.last
		data, err := os.ReadFile(filepath.Join(r.top, e.name))
		if err != nil {
			return err
		}
		e.data = data
	case fsx.OpRename:
		e.from, e.name = e.name, r.rel(filepath.Join(op.Root, op.To))
		e.ino = r.names[e.from]
		delete(r.names, e.from)
		r.names[e.name] = e.ino
	case fsx.OpRemove:
		delete(r.names, e.name)
	case fsx.OpWrite, fsx.OpTruncate, fsx.OpSync:
		e.ino = r.open[op.File]
	}
	r.log = append(r.log, e)
	return nil
}

// Len returns the number of recorded calls.
func (r *Recorder) Len() int { return len(r.log) }

// Replay recreates in the empty folder dst what a power failure right after call n may
// leave. lose selects the unsafe changes that are lost.
func (r *Recorder) Replay(dst string, n int, lose func(i int) bool) error {
	unsafe := map[int]bool{}
	for _, i := range r.pending(n) {
		unsafe[i] = lose(i)
	}
	names := map[string]int{}
	files := map[int]*content{}
	for name, ino := range r.base {
		names[name] = ino
		if data := r.bytes[ino]; data != nil {
			files[ino] = &content{data: slices.Clone(data), kept: int64(len(data))}
		}
	}
	for i, e := range r.log[:n] {
		lost := unsafe[i]
		if e.kind != fsx.OpMkdir && e.ino != 0 && files[e.ino] == nil {
			files[e.ino] = &content{data: e.linked(), kept: int64(len(e.linked()))}
		}
		switch {
		case e.kind == fsx.OpWrite:
			files[e.ino].write(e.data, lost)
		case e.kind == fsx.OpTruncate:
			files[e.ino].truncate(e.size)
		case lost:
		case e.kind == fsx.OpRemove:
			delete(names, e.name)
		case e.kind == fsx.OpRename:
			if names[e.from] == e.ino {
				delete(names, e.from)
			}
			names[e.name] = e.ino
		case e.ino != 0 && e.kind != fsx.OpSync:
			names[e.name] = e.ino
		}
	}
	return layOut(dst, names, files)
}

// linked returns the content of a file linked from elsewhere.
func (e event) linked() []byte {
	if e.kind == fsx.OpLink {
		return slices.Clone(e.data)
	}
	return nil
}

// content is the bytes of a file; those past kept were lost.
type content struct {
	data []byte
	kept int64
}

// write appends p. Lost bytes are zeros if later ones are kept, otherwise missing.
func (c *content) write(p []byte, lost bool) {
	if lost {
		c.data = append(c.data, make([]byte, len(p))...)
		return
	}
	c.data = append(c.data, p...)
	c.kept = int64(len(c.data))
}

func (c *content) truncate(size int64) {
	if size > int64(len(c.data)) {
		c.data = append(c.data, make([]byte, size-int64(len(c.data)))...)
	}
	c.data, c.kept = c.data[:size], min(c.kept, size)
}

// pending returns the changes among the first n that no sync has made safe.
func (r *Recorder) pending(n int) []int {
	var open []int
	for i, e := range r.log[:n] {
		switch e.kind {
		case fsx.OpSync:
			open = slices.DeleteFunc(open, func(j int) bool { return !r.log[j].entry() && r.log[j].ino == e.ino })
		case fsx.OpSyncDir:
			open = slices.DeleteFunc(open, func(j int) bool { return r.log[j].entry() && path.Dir(r.log[j].name) == e.name })
		case fsx.OpChmod, fsx.OpClose:
		default:
			open = append(open, i)
		}
	}
	return open
}

// Adds reports whether call n changed something. After a call that did not (a sync or
// close), a power failure leaves nothing new.
func (r *Recorder) Adds(n int) bool {
	if n == 0 {
		return true
	}
	switch r.log[n-1].kind {
	case fsx.OpSync, fsx.OpSyncDir, fsx.OpChmod, fsx.OpClose:
		return false
	}
	return true
}

// Losses returns ways to lose the unsafe changes after call n: none, all, some random
// subsets and, if singles is set, each one alone and all but each one.
func (r *Recorder) Losses(n int, singles bool, random int, seed uint64) []func(i int) bool {
	open := r.pending(n)
	out := []func(int) bool{func(int) bool { return false }}
	if len(open) == 0 {
		return out
	}
	out = append(out, func(int) bool { return true })
	if singles && len(open) > 1 {
		for _, x := range open {
			out = append(out, func(i int) bool { return i == x }, func(i int) bool { return i != x })
		}
	}
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	for range min(random, 1<<min(len(open), 20)) {
		lost := map[int]bool{}
		for _, x := range open {
			lost[x] = rng.IntN(2) == 0
		}
		out = append(out, func(i int) bool { return lost[i] })
	}
	return out
}

// layOut writes names below dst; the contents of a lost folder are lost, too.
func layOut(dst string, names map[string]int, files map[int]*content) error {
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	for _, name := range sorted {
		p := filepath.Join(dst, filepath.FromSlash(name))
		if _, err := os.Stat(filepath.Dir(p)); err != nil {
			continue
		}
		var err error
		if c := files[names[name]]; c == nil {
			err = os.Mkdir(p, 0o755)
		} else {
			err = os.WriteFile(p, c.data[:c.kept], 0o644)
		}
		if err != nil {
			return fmt.Errorf("replay %s: %w", name, err)
		}
	}
	return nil
}

func (r *Recorder) rel(p string) string {
	rel, err := filepath.Rel(r.top, p)
	if err != nil || strings.HasPrefix(rel, "..") {
		panic("fsxtest: call outside the recorded folder: " + p)
	}
	return filepath.ToSlash(rel)
}
