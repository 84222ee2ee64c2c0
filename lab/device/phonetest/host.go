package phonetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device/protocol"
)

// Exec runs the pushed program on this machine instead of the emulated runner, for example
// with QNN's emulation. The paths of the call are local. It writes the result to stdout and
// returns the exit code.
type Exec func(ctx context.Context, call protocol.Call, stdout, stderr io.Writer) int

// outside copies the files of a call for Exec, and its outputs back.
func (s *session) outside(ctx context.Context, call protocol.Call) int {
	dir, err := fsx.MkdirTemp("phone-run-")
	if err == nil {
		defer fsx.RemoveAll(dir)
		code := 0
		if code, err = s.within(ctx, call, dir); err == nil {
			return code
		}
	}
	fmt.Fprintln(s.stderr, "mm-device:", err)
	return 3
}

func (s *session) within(ctx context.Context, call protocol.Call, dir string) (int, error) {
	root := path.Join("/", s.p.local("/", s.dir))
	moved := call
	for _, place := range []struct {
		name *string
		as   string
	}{{&moved.Program, "mm-device"}, {&moved.Context, "context.bin"}, {&moved.Inputs, "in"}, {&moved.Libs, "lib"}} {
		if *place.name == "" {
			continue
		}
		if err := s.p.layOut(path.Join(root, *place.name), filepath.Join(dir, place.as)); err != nil {
			return 0, err
		}
		*place.name = filepath.Join(dir, place.as)
	}
	moved.Outputs = filepath.Join(dir, "out")
	d, err := fsx.Create(moved.Outputs, 0o700, fsx.Options{})
	if err != nil {
		return 0, err
	}
	defer d.Close()
	code := s.p.Exec(ctx, moved, s.stdout, s.stderr)
	return code, fs.WalkDir(d.Root().FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(d.Root().FS(), name)
		if err != nil {
			return err
		}
		at := s.p.local(root, path.Join(call.Outputs, name))
		return errors.Join(s.p.mkdir(path.Dir(at)), s.redirect(at, data, false))
	})
}

// layOut copies a file of the phone, or all files and links below a folder.
func (p *Phone) layOut(from, to string) error {
	below := strings.TrimPrefix(from, "/")
	names := map[string]string{}
	p.mu.Lock()
	for at := range p.links {
		if at == below {
			names[from] = to
		} else if rest, ok := strings.CutPrefix(at, below+"/"); ok {
			names["/"+at] = filepath.Join(to, filepath.FromSlash(rest))
		}
	}
	p.mu.Unlock()
	for _, at := range p.List(from) {
		if rest, ok := strings.CutPrefix(at, from+"/"); ok {
			names[at] = filepath.Join(to, filepath.FromSlash(rest))
		}
	}
	for name, path := range names {
		data, err := p.ReadFile(name)
		if err != nil {
			return err
		}
		err = fsx.Replace(path, 0o600, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
