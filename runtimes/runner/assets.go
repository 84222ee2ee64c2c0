package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/skills/sandbox"
)

// Asset is a file for tools only: the model does not see it, and calls name it as #Name. It
// has a path or data.
type Asset struct {
	Name string `json:"name"`
	Path string `json:"path,omitempty"`
	Data []byte `json:"data,omitempty"` // base64 in JSON
}

// maxAsset bounds an asset, in bytes.
const maxAsset = 1 << 30

// names restricts the names of assets.
var names = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`) })

// assets opens the assets of the request, if the build has skills that run here. They stay
// open until closed is called.
func (r *Runner) assets(req Request) (out []sandbox.Asset, closed func() error, err error) {
	if r.opt.Skills.Executors != nil && len(r.build.Assembly.Skills) > 0 {
		return req.assets()
	}
	if len(req.Assets) > 0 {
		return nil, nil, &runtimes.Unavailable{What: "asset " + req.Assets[0].Name, Why: r.build.Assembly.Name + " has no skills that can read it", Hint: "leave it out"}
	}
	return nil, func() error { return nil }, nil
}

// assets opens the files that the tools of a request may read: its images as img0, img1
// and so on, its sounds as audio0, its videos as video0 unless they are folders, and its
// assets. They stay open until closed is called.
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
		if !names().MatchString(a.Name) || have[a.Name] {
			return fmt.Errorf("bad or duplicate asset name %q: want a unique name that matches %s", a.Name, names())
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
			err = fmt.Errorf("%d bytes, limit %d", info.Size(), maxAsset)
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
		// Skip folders of frames, and unreadable files, which the encoder reports.
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

// ParseAssets parses the values of --asset: NAME=FILE.
func ParseAssets(values []string) (out []Asset, err error) {
	for _, v := range values {
		name, file, ok := strings.Cut(v, "=")
		if !ok || name == "" || file == "" {
			return nil, diag.Usagef("--asset %q: want NAME=FILE", v)
		}
		out = append(out, Asset{Name: name, Path: file})
	}
	return out, nil
}
