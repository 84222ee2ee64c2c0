// Package corpus builds data sets for training from a declarative manifest.
//
// [Read] reads a [Manifest]: sources with their licenses and digests, filters,
// deduplication, a policy for personal data, and splits. [Build] reads the
// sources as streams, in blocks that workers convert concurrently and one
// goroutine collects in order, so that the result is the same at any number of
// threads. Documents wait in a compressed file until duplicates are known.
//
// Memory does not grow with the data: blocks of 1 MiB (a row of at most 16 MiB)
// for each worker, 64 MiB of hashes, buffers of [Sorter], and 32 bytes
// for each document that is a candidate for similarity. On disk, a document
// takes its compressed text, 24 bytes for its hash and, if similar ones are
// dropped, 400 for its keys.
//
// A data set is a folder with a file of JSON lines for each split and
// lineage.json, which records where every byte is from ([Lineage]). The folder
// appears at once, when it is complete.
package corpus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// Options configure Build.
type Options struct {
	Dir     string   // folder of the sources
	Out     string   // folder of the data set
	Threads int      // workers; runtime.GOMAXPROCS if 0
	Force   bool     // replace another data set
	Parts   []string // files of WritePart, in order, which replace the sources
	Objects Objects  // opens the sources that are in buckets; nil: they are faults
	// Progress is called with the bytes and rows read so far, if it is not nil.
	Progress func(bytes, rows int64)

	work *fsx.Dir // of copies of objects
}

// workFolder holds temporary files, in the parent of the data set.
const workFolder = ".mm-data"

// Build builds the data set of a manifest. Faults of sources are a diag.Faults.
func Build(ctx context.Context, m *Manifest, opt Options) (*Lineage, error) {
	if opt.Threads <= 0 {
		opt.Threads = runtime.GOMAXPROCS(0)
	}
	old, err := existing(opt.Out)
	if err != nil {
		return nil, err
	}
	if old != nil && old.Digest == m.LineageDigest() {
		changed := old.Verify(opt.Out)
		if changed == nil {
			old.Unchanged = true
			return old, nil
		}
		if !opt.Force {
			return nil, changed
		}
	}
	if old != nil && !opt.Force {
		return nil, oneFault(diag.DataTaken, opt.Out, fmt.Sprintf("its lineage is %s, that of the manifest %s", old.Digest, m.LineageDigest()))
	}
	above, err := fsx.Create(filepath.Dir(filepath.Clean(opt.Out)), 0o755, fsx.Options{})
	if err != nil {
		return nil, err
	}
	defer above.Close()
	l, err := inFolder(ctx, above, func(work *fsx.Dir) (*Lineage, error) {
		l, err := build(ctx, m, work, opt)
		if err != nil {
			return nil, err
		}
		return l, publish(above, filepath.Base(work.Path()), filepath.Base(filepath.Clean(opt.Out)))
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// inFolder calls do with a temporary folder. Folders of processes that died are
// removed.
func inFolder(ctx context.Context, above *fsx.Dir, do func(*fsx.Dir) (*Lineage, error)) (*Lineage, error) {
	if err := above.MkdirAll(workFolder, 0o755); err != nil {
		return nil, err
	}
	parent, err := fsx.Open(filepath.Join(above.Path(), workFolder), fsx.Options{})
	if err != nil {
		return nil, err
	}
	defer above.Remove(workFolder) // stays while another build uses it
	defer parent.Close()
	work, done, err := parent.Scratch(ctx)
	if err != nil {
		return nil, err
	}
	l, err := do(work)
	return l, errors.Join(err, done())
}

// publish renames the data set in the temporary folder to its place. An older
// one moves to the temporary folder.
func publish(above *fsx.Dir, work, name string) error {
	at := workFolder + "/" + work
	if entries, err := fs.ReadDir(above.Root().FS(), name); err == nil {
		if len(entries) == 0 {
			err = above.Remove(name)
		} else {
			err = above.Rename(name, at+"/old")
		}
		if err != nil {
			return err
		}
	}
	if err := above.Rename(at+"/out", name); err != nil {
		return err
	}
	return above.SyncDir(".")
}

// oneFault returns a fault of a file as an error.
func oneFault(code diag.Code, file, detail string) error {
	var list diag.List
	list.Add(code, diag.Pos{File: file}, detail, "")
	return list.Err()
}

// existing returns the data set at out, or nil without one.
func existing(out string) (*Lineage, error) {
	entries, err := os.ReadDir(out)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l, err := OpenLineage(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, oneFault(diag.DataTaken, out, fmt.Sprintf("it has %d files and no %s", len(entries), LineageFile))
	}
	return l, err
}

// collect adds the documents of the parts or, without parts, of the sources.
func collect(ctx context.Context, m *Manifest, opt Options, c *collector) error {
	w, err := newWorker(m)
	if err != nil {
		return err
	}
	c.readers = w.readers
	if len(opt.Parts) > 0 {
		return joinParts(ctx, w, opt.Parts, c)
	}
	return scan(ctx, w, AllSources, opt, c)
}

// build writes the data set to the folder "out" of work.
func build(ctx context.Context, m *Manifest, work *fsx.Dir, opt Options) (*Lineage, error) {
	c, err := newCollector(m, work)
	if err != nil {
		return nil, err
	}
	opt.work = work
	if err := collect(ctx, m, opt, c); err != nil {
		return nil, errors.Join(err, c.spool.close())
	}
	if err := c.spool.close(); err != nil {
		return nil, err
	}
	if err := c.list.Err(); err != nil {
		return nil, err
	}
	if err := c.duplicates(ctx); err != nil {
		return nil, err
	}
	if err := work.MkdirAll("out", 0o755); err != nil {
		return nil, err
	}
	l, err := c.write(ctx)
	if err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return nil, err
	}
	return l, work.WriteFile("out/"+LineageFile, append(data, '\n'), 0o644)
}
