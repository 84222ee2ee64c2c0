package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/skills/sandbox"
)

// Asset is a file for tools alone: the model is not shown it, and calls name it
// as #Name. It has a path or data.
type Asset struct {
	Name string `json:"name"`
	Path string `json:"path,omitempty"`
	Data []byte `json:"data,omitempty"` // base64 in JSON
}

// maxAsset bounds an asset, in bytes.
const maxAsset = 1 << 30

// names are what assets may be called.
var names = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// assets are those of the request, where the build has skills that are run here.
// They are open until closed.
func (r *Runner) assets(req Request) (out []sandbox.Asset, closed func() error, err error) {
	if r.opt.Skills.Executors != nil && len(r.build.Assembly.Skills) > 0 {
		return req.assets()
	}
	if len(req.Assets) > 0 {
		return nil, nil, &runtimes.Unavailable{What: "asset " + req.Assets[0].Name, Why: r.build.Assembly.Name + " has no skills that could read it", Hint: "leave it out"}
	}
	return nil, func() error { return nil }, nil
}

// assets are the files that the tools of a request may read: its pictures as
// img0, img1 and so on, its sounds as audio0, its films, unless they are folders,
// as video0, and those that it names. They are open until closed.
func (r Request) assets() (out []sandbox.Asset, closed func() error, err error) {
	var open []io.Closer
	closed = func() error {
		var errs []error
		for _, c := range open {
			errs = append(errs, c.Close())
		}
		return errors.Join(errs...)
	}
	have := map[string]bool{}
	add := func(a Asset) error {
		if !names.MatchString(a.Name) || have[a.Name] {
			return fmt.Errorf("an asset is called %q, wanted are names of their own like %s", a.Name, names)
		}
		have[a.Name] = true
		if a.Path == "" {
			out = append(out, sandbox.Asset{Name: a.Name, Data: bytes.NewReader(a.Data), Size: int64(len(a.Data))})
			return nil
		}
		f, err := fsx.OpenRegular(a.Path)
		if err != nil {
			return fmt.Errorf("asset %s: %w", a.Name, err)
		}
		open = append(open, f)
		info, err := f.Stat()
		if err == nil && info.Size() > maxAsset {
			err = fmt.Errorf("it has %d bytes, at most %d are read", info.Size(), maxAsset)
		}
		if err != nil {
			return fmt.Errorf("asset %s: %w", a.Name, err)
		}
		out = append(out, sandbox.Asset{Name: a.Name, Data: f, Size: info.Size()})
		return nil
	}
	count := map[abi.Modality]int{}
	for _, p := range r.parts() {
		prefix := map[abi.Modality]string{abi.Image: "img", abi.Audio: "audio", abi.Video: "video"}[p.Type]
		if prefix == "" {
			continue
		}
		name := fmt.Sprint(prefix, count[p.Type])
		count[p.Type]++
		// A folder of frames is no file, and of what cannot be read the encoder tells.
		if info, statErr := os.Stat(p.Path); p.Path != "" && (statErr != nil || !info.Mode().IsRegular()) {
			continue
		}
		err = errors.Join(err, add(Asset{Name: name, Path: p.Path, Data: p.Data}))
	}
	for _, a := range r.Assets {
		err = errors.Join(err, add(a))
	}
	if err != nil {
		return nil, nil, errors.Join(err, closed())
	}
	return out, closed, nil
}
