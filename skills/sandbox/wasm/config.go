package wasm

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/tetratelabs/wazero"

	"mm-abi.org/mm/skills/sandbox"
)

// config returns the environment of an instance: the permissions of allow and
// the assets of the call.
func (g *guest) config(ctx context.Context, c sandbox.Call) (wazero.ModuleConfig, func(), error) {
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions().WithArgs(g.name)
	config = config.WithRandSource(&steady{ctx: ctx, random: g.allow.Random})
	for _, kv := range environ(g.allow.Env) {
		config = config.WithEnv(kv[0], kv[1])
	}
	if g.allow.Clock {
		config = config.WithSysWalltime().WithSysNanotime().WithNanosleep(func(ns int64) { sleep(ctx, ns) })
	}
	mounts := wazero.NewFSConfig()
	if len(c.Assets) > 0 {
		mounts = mounts.WithFSMount(assets(c.Assets), "in")
	}
	var opened []io.Closer
	done := func() {
		for _, o := range opened {
			o.Close()
		}
	}
	for _, path := range g.allow.Read {
		tree, closer, err := openTree(path)
		if err != nil {
			done()
			return nil, nil, sandbox.Refuse("allow.read: %v", err)
		}
		opened = append(opened, closer)
		mounts = mounts.WithFSMount(tree, path)
	}
	return config.WithFSConfig(mounts), done, nil
}

// sleep waits for ns nanoseconds or the end of the call.
func sleep(ctx context.Context, ns int64) {
	if ns <= 0 {
		return
	}
	t := time.NewTimer(time.Duration(ns))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// steady is the source of a guest's random bytes: real ones if allowed,
// otherwise the same sequence in each call. It fills buffers in pieces, so
// that filling all memory can be interrupted.
type steady struct {
	ctx    context.Context
	random bool
	state  uint64
}

// Read implements io.Reader.
func (s *steady) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	p = p[:min(len(p), 64<<10)]
	if s.random {
		return rand.Read(p)
	}
	for i := range p {
		if i%8 == 0 {
			s.state += 0x9e3779b97f4a7c15
		}
		z := s.state // splitmix64
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		p[i] = byte((z ^ z>>31) >> (8 * (i % 8)))
	}
	return len(p), nil
}

var errFolder = errors.New("is a folder")

// assets is the folder /in of a call, which holds its assets.
type assets []sandbox.Asset

// Open implements fs.FS.
func (a assets) Open(name string) (fs.File, error) {
	if name == "." {
		return &folder{list: a}, nil
	}
	for _, asset := range a {
		if asset.Name == name {
			return &file{io.NewSectionReader(asset.Data, 0, asset.Size), asset}, nil
		}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// file is an opened asset.
type file struct {
	*io.SectionReader
	asset sandbox.Asset
}

// Stat implements fs.File.
func (f *file) Stat() (fs.FileInfo, error) { return info{f.asset.Name, f.asset.Size, 0o444}, nil }

// Close implements fs.File.
func (f *file) Close() error { return nil }

// folder is the opened folder of assets.
type folder struct {
	list assets
	next int
}

// Stat implements fs.File.
func (f *folder) Stat() (fs.FileInfo, error) { return info{"in", 0, fs.ModeDir | 0o555}, nil }

// Read implements fs.File.
func (f *folder) Read([]byte) (int, error) { return 0, errFolder }

// Close implements fs.File.
func (f *folder) Close() error { return nil }

// ReadDir implements fs.ReadDirFile.
func (f *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	var out []fs.DirEntry
	for ; f.next < len(f.list) && (n <= 0 || len(out) < n); f.next++ {
		a := f.list[f.next]
		out = append(out, fs.FileInfoToDirEntry(info{a.Name, a.Size, 0o444}))
	}
	if n > 0 && len(out) == 0 {
		return nil, io.EOF
	}
	return out, nil
}

// info describes an asset.
type info struct {
	name string
	size int64
	mode fs.FileMode
}

// Name implements fs.FileInfo.
func (i info) Name() string { return i.name }

// Size implements fs.FileInfo.
func (i info) Size() int64 { return i.size }

// Mode implements fs.FileInfo.
func (i info) Mode() fs.FileMode { return i.mode }

// ModTime implements fs.FileInfo with a fixed time.
func (i info) ModTime() time.Time { return time.Unix(0, 0) }

// IsDir implements fs.FileInfo.
func (i info) IsDir() bool { return i.mode.IsDir() }

// Sys implements fs.FileInfo.
func (i info) Sys() any { return nil }
