package runner

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills/sandbox"
)

// Asset is a file that skills may read, and the model does not see.
type Asset struct {
	Name string `json:"name"` // #NAME in the arguments of a call
	Path string `json:"path"`
}

// files are what was opened for an answer.
type files []*os.File

func (f files) close() {
	for _, file := range f {
		file.Close()
	}
}

// open opens a file that skills may read.
func (f *files) open(name, path string) (sandbox.Asset, error) {
	file, err := os.Open(path)
	if err != nil {
		return sandbox.Asset{}, fmt.Errorf("opening the asset %s: %w", name, err)
	}
	*f = append(*f, file)
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		return sandbox.Asset{}, fmt.Errorf("opening the asset %s: %w", name, err)
	}
	return sandbox.Asset{Name: name, Data: file, Size: info.Size()}, nil
}

// called are the beginnings of the names of inputs, as the playbook has them.
var called = map[abi.Modality]string{abi.Image: "img", abi.Audio: "aud", abi.Video: "vid"}

// assets are the files of a request: its pictures, sounds and films as img0,
// img1, aud0 … in their order, and what is attached under its own name. A folder
// of frames is none.
func (r Request) assets(held *files) ([]sandbox.Asset, error) {
	var out []sandbox.Asset
	count := map[abi.Modality]int{}
	for _, part := range r.parts() {
		kind := called[part.Type]
		if kind == "" {
			continue
		}
		name := fmt.Sprintf("%s%d", kind, count[part.Type])
		count[part.Type]++
		a, err := opened(part, name, held)
		if err != nil {
			return nil, err
		}
		if a.Data != nil {
			out = append(out, a)
		}
	}
	for _, attached := range r.Assets {
		a, err := held.open(strings.TrimPrefix(attached.Name, "#"), attached.Path)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	if err := sandbox.Assets(out); err != nil && len(r.Assets) > 0 {
		return nil, err
	} else if err != nil {
		return nil, nil // more pictures than a call may have: skills read none
	}
	return out, nil
}

// opened is the file of a part; the zero value for one that is none.
func opened(part talk.Part, name string, held *files) (sandbox.Asset, error) {
	if len(part.Data) > 0 {
		return sandbox.Asset{Name: name, Data: bytes.NewReader(part.Data), Size: int64(len(part.Data))}, nil
	}
	if info, err := os.Stat(part.Path); err != nil || !info.Mode().IsRegular() {
		return sandbox.Asset{}, nil // what is wrong with it is the encoder's to say
	}
	return held.open(name, part.Path)
}
