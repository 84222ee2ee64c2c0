// QNN's libraries in a folder, of an SDK or of a phone, are inspected without
// loading any: presence, architectures of the HTP, and build.

package htp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"mm-abi.org/mm/internal/fsx"
)

// Limits of a library folder.
const (
	maxFiles   = 20000
	maxLibrary = 1 << 30 // bytes; libQnnHtp.so of a PC has 103 MiB
	chunk      = 1 << 20
)

// Libraries describes a folder.
type Libraries struct {
	Dir     string
	HTP     bool   // libQnnHtp.so or QnnHtp.dll
	System  bool   // libQnnSystem.so or QnnSystem.dll
	Stubs   []Arch // architectures with a stub, the half for the processor
	Skels   []Arch // and with a skel, the half for the HTP
	Build   string // of libQnnHtp, such as v2.47.0.260601114230; "" if unknown
	Builds  int    // number of different builds that it names
	library string // path of libQnnHtp
}

var (
	backend = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(lib)?Qnn(Htp|System)\.(so|dll)$`) })
	half    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(lib)?QnnHtpV(\d{2})(Stub|Skel)(Drv)?\.(so|dll)$`) })
	build   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`v[0-9]{1,2}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{12}`) })
)

// FindLibraries inspects a folder and its subfolders. Symbolic links to folders
// are not followed, except dir itself.
func FindLibraries(dir string) (Libraries, error) {
	s := Libraries{Dir: dir}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return s, err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return s, errors.Join(err, &fs.PathError{Op: "look through", Path: dir, Err: errors.New("not a folder")})
	}
	files := 0
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if files++; files > maxFiles {
			return fmt.Errorf("more than %d files: name the folder of the libraries itself", maxFiles)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			s.add(path, e.Name())
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	for _, list := range []*[]Arch{&s.Stubs, &s.Skels} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if s.library == "" {
		return s, nil
	}
	s.Build, s.Builds, err = buildOf(s.library, maxLibrary)
	return s, err
}

func (s *Libraries) add(path, name string) {
	if m := backend().FindStringSubmatch(name); m != nil {
		if m[2] == "System" {
			s.System = true
		} else if s.HTP = true; s.library == "" {
			s.library = path
		}
	}
	if m := half().FindStringSubmatch(name); m != nil {
		n, err := strconv.ParseUint(m[2], 10, 8)
		if err != nil {
			return
		}
		if m[3] == "Stub" {
			s.Stubs = append(s.Stubs, Arch(n))
		} else {
			s.Skels = append(s.Skels, Arch(n))
		}
	}
}

// buildOf searches the first limit bytes of a library for its build, chunk by
// chunk. If there are two, it returns neither: the choice would be a guess.
func buildOf(path string, limit int64) (string, int, error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	const overlap = 64
	r := io.LimitReader(f, limit)
	found := map[string]bool{}
	buf := make([]byte, overlap+chunk)
	tail := 0
	for {
		n, err := io.ReadFull(r, buf[tail:])
		for _, m := range build().FindAll(buf[:tail+n], -1) {
			found[string(bytes.Clone(m))] = true
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return "", 0, err
			}
			break
		}
		copy(buf, buf[len(buf)-overlap:])
		tail = overlap
	}
	if len(found) != 1 {
		return "", len(found), nil
	}
	for b := range found {
		return b, 1, nil
	}
	return "", 0, nil
}
