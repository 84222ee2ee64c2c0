package phonetest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"mm-abi.org/mm/internal/fsx"
)

// errKey is the error of encrypted storage before the first unlock.
var errKey = errors.New("required key not available")

// errNotEmpty is the error of rmdir for a non-empty folder.
var errNotEmpty = errors.New("directory not empty")

// reason returns an error as the phone's system prints it.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "No such file or directory"
	case errors.Is(err, fs.ErrExist):
		return "File exists"
	case errors.Is(err, syscall.EROFS):
		return "Read-only file system"
	case errors.Is(err, syscall.ENOSPC):
		return "No space left on device"
	case errors.Is(err, errKey):
		return "Required key not available"
	case errors.Is(err, fs.ErrPermission):
		return "Permission denied"
	}
	return err.Error()
}

// local maps a path of the phone to one below the folder, following links.
func (p *Phone) local(dir, name string) string {
	if !path.IsAbs(name) {
		name = path.Join(dir, name)
	}
	name = strings.TrimPrefix(path.Clean(name), "/")
	p.mu.Lock()
	defer p.mu.Unlock()
	for range 8 {
		parts := strings.Split(name, "/")
		moved := false
		for i := range parts {
			at := path.Join(parts[:i+1]...)
			to, ok := p.links[at]
			if !ok {
				continue
			}
			if !path.IsAbs(to) {
				to = path.Join("/", path.Dir(at), to)
			}
			name, moved = strings.TrimPrefix(path.Join(append([]string{to}, parts[i+1:]...)...), "/"), true
			break
		}
		if !moved {
			break
		}
	}
	if name == "" {
		return "."
	}
	return name
}

// writable returns an error unless the local path can be written.
func (p *Phone) writable(name string) error {
	switch {
	case p.broken(ReadOnly):
		return syscall.EROFS
	case p.broken(Locked):
		return errKey
	case name != "data/local/tmp" && !strings.HasPrefix(name, "data/local/tmp/"):
		return fs.ErrPermission
	}
	return nil
}

// room allocates n bytes of the storage.
func (p *Phone) room(n int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.Free
	if p.faults[NoSpaceLeft] {
		limit = 128 << 10
	}
	if p.used += n; p.used > limit {
		return syscall.ENOSPC
	}
	return nil
}

func (p *Phone) stat(name string) (fs.FileInfo, error) { return p.files.Root().Stat(name) }

func (p *Phone) open(name string) (*os.File, error) { return p.files.Root().Open(name) }

// ReadFile returns the content of a file of the phone.
func (p *Phone) ReadFile(name string) ([]byte, error) {
	f, err := p.open(p.local("/", name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// WriteFile writes a file of the phone, regardless of faults.
func (p *Phone) WriteFile(name string, data []byte) error {
	name = p.local("/", name)
	if err := p.files.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return p.files.WriteFile(name, data, 0o644)
}

// List returns the files below a folder, sorted.
func (p *Phone) List(dir string) []string {
	var out []string
	fs.WalkDir(p.files.Root().FS(), p.local("/", dir), func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			out = append(out, "/"+name)
		}
		return nil
	})
	slices.Sort(out)
	return out
}

// names returns the entries of a folder, including links.
func (p *Phone) names(dir string) []string {
	var out []string
	entries, _ := fs.ReadDir(p.files.Root().FS(), dir)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range p.links {
		if path.Dir(at) == dir {
			out = append(out, path.Base(at))
		}
	}
	slices.Sort(out)
	return out
}

// create opens a file for writing or appending.
func (p *Phone) create(name string, add bool) (*fsx.File, error) {
	if err := p.writable(name); err != nil {
		return nil, err
	}
	if add {
		return p.files.Append(name, 0o644)
	}
	for {
		if err := p.files.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		f, err := p.files.Create(name, 0o644)
		if !errors.Is(err, fs.ErrExist) { // or another command created it concurrently
			return f, err
		}
	}
}

// write writes data if there is room.
func (p *Phone) write(f *fsx.File, data []byte) error {
	if err := p.room(int64(len(data))); err != nil {
		return err
	}
	if len(data) >= 1024 && p.once(Corrupt) { // a file, not a word
		data = slices.Clone(data)
		data[len(data)/2] ^= 0x10
	}
	_, err := f.Write(data)
	return err
}

func (p *Phone) mkdir(name string) error {
	if err := p.writable(name); err != nil {
		return err
	}
	return p.files.MkdirAll(name, 0o755)
}

// remove removes a file or a folder with its contents.
func (p *Phone) remove(name string) error {
	if err := p.writable(name); err != nil {
		return err
	}
	p.mu.Lock()
	for at := range p.links {
		if at == name || strings.HasPrefix(at, name+"/") {
			delete(p.links, at)
		}
	}
	p.mu.Unlock()
	if _, err := p.stat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var all []string
	err := fs.WalkDir(p.files.Root().FS(), name, func(at string, _ fs.DirEntry, err error) error {
		all = append(all, at)
		return err
	})
	for _, at := range slices.Backward(all) {
		err = errors.Join(err, p.files.Remove(at))
	}
	return err
}
