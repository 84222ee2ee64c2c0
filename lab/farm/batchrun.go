package farm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/schemas"
)

// BatchOptions for [Queue.RunBatch].
type BatchOptions struct {
	Out   string               // folder of the results, which appears when it is complete
	Again bool                 // execute steps that failed once more
	Tell  func(string, Result) // called with the result of each step; may be nil
}

// RunBatch executes the steps of a batch on the workers of the queue and fetches the
// results. A run that was killed at any point continues: its jobs have the same names.
func (q *Queue) RunBatch(ctx context.Context, b Batch, opt BatchOptions) (map[string]Result, error) {
	r := &batchRun{q: q, b: b, opt: opt, sums: map[string]string{}, done: map[string]Result{}}
	for len(r.done) < len(b.Steps) {
		if err := r.submitReady(ctx); err != nil {
			return nil, err
		}
	}
	return r.done, r.fetch(ctx)
}

// batchRun is a batch in execution.
type batchRun struct {
	q    *Queue
	b    Batch
	opt  BatchOptions
	sums map[string]string // of files in the queue
	done map[string]Result
}

// submitReady submits the steps that follow none without a result, and waits for them.
func (r *batchRun) submitReady(ctx context.Context) error {
	names := map[string][]string{} // steps by job: equal ones are one
	var ids []string
	for _, s := range r.b.Steps {
		waits := slices.ContainsFunc(s.After, func(name string) bool { _, ok := r.done[name]; return !ok })
		if _, done := r.done[s.Name]; done || waits {
			continue
		}
		id, err := r.submit(ctx, s)
		if err != nil {
			return fmt.Errorf("step %s: %w", s.Name, err)
		}
		if names[id] == nil {
			ids = append(ids, id)
		}
		names[id] = append(names[id], s.Name)
	}
	if len(ids) == 0 {
		return errors.New("batch: steps wait for each other")
	}
	var failed error
	err := r.q.Wait(ctx, ids, func(got Result) error {
		for _, name := range names[got.Job] {
			if err := got.Err(); err != nil {
				failed = errors.Join(failed, fmt.Errorf("step %s: %w", name, err))
			}
			r.done[name] = got
			if r.opt.Tell != nil {
				r.opt.Tell(name, got)
			}
		}
		return nil
	})
	return errors.Join(err, failed)
}

// submit puts the job of a step into the queue with its files and the outputs of the steps
// that it follows.
func (r *batchRun) submit(ctx context.Context, s Step) (string, error) {
	j := s.Job
	j.Inputs = map[string]string{}
	for _, name := range s.Files {
		if r.sums[name] == "" {
			sum, err := r.q.PutFile(ctx, filepath.Join(r.b.Dir, filepath.FromSlash(name)))
			if err != nil {
				return "", err
			}
			r.sums[name] = sum
		}
		j.Inputs[name] = r.sums[name]
	}
	for name, text := range s.Texts {
		sum, err := r.q.PutBytes(ctx, []byte(text))
		if err != nil {
			return "", err
		}
		j.Inputs[name] = sum
	}
	for _, from := range s.After {
		for name, sum := range r.done[from].Outputs {
			if before := j.Inputs[name]; before != "" && before != sum {
				return "", fmt.Errorf("two files %s: that of %s differs", name, from)
			}
			j.Inputs[name] = sum
		}
	}
	if r.opt.Again {
		_, id, err := j.Encode()
		if err == nil {
			err = r.q.Forget(ctx, id)
		}
		if err != nil {
			return "", err
		}
	}
	return r.q.Submit(ctx, j)
}

// results returns the digests of the result files by path.
func (r *batchRun) results() (map[string]string, error) {
	all := map[string]string{}
	for _, s := range r.b.Steps {
		if !s.Fetch {
			continue
		}
		for name, sum := range r.done[s.Name].Outputs {
			rest := name
			if s.From != "" {
				below, ok := strings.CutPrefix(name, s.From+"/")
				if !ok {
					continue
				}
				rest = below
			}
			to := path.Join(s.To, rest)
			if !schemas.ValidPath(to) {
				return nil, fmt.Errorf("step %s: invalid output %q, want a relative path", s.Name, name)
			}
			all[to] = sum
		}
	}
	return all, nil
}

// fetch writes the results to their folder, unless it has them.
func (r *batchRun) fetch(ctx context.Context) error {
	if r.opt.Out == "" {
		return nil
	}
	all, err := r.results()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(r.opt.Out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return same(r.opt.Out, all)
	}
	above, err := fsx.Create(filepath.Dir(filepath.Clean(r.opt.Out)), 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer above.Close()
	work, done, err := above.Scratch(ctx)
	if err != nil {
		return err
	}
	err = r.place(ctx, above, work, all)
	return errors.Join(err, done())
}

// place writes files to a temporary folder and renames it to that of the results.
func (r *batchRun) place(ctx context.Context, above, work *fsx.Dir, all map[string]string) error {
	if err := work.MkdirAll(batchOut, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := r.q.GetFile(ctx, all[name], filepath.Join(work.Path(), batchOut), name); err != nil {
			return fmt.Errorf("result %s: %w", name, err)
		}
	}
	name := filepath.Base(filepath.Clean(r.opt.Out))
	if err := above.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // an empty folder
		return err
	}
	if err := above.Rename(filepath.Base(work.Path())+"/"+batchOut, name); err != nil {
		return err
	}
	return above.SyncDir(".")
}

// same reports a folder whose files are not those of the digests.
func same(dir string, all map[string]string) error {
	n := 0
	err := filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		n++
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		_, got, err := fsx.Digest(at)
		if err == nil && got != "sha256:"+all[filepath.ToSlash(rel)] {
			err = fmt.Errorf("%s: the folder has another file %s", dir, filepath.ToSlash(rel))
		}
		return err
	})
	if err == nil && n != len(all) {
		err = fmt.Errorf("%s: the folder has %d files, the result %d", dir, n, len(all))
	}
	return err
}
