package loose

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/workspace/home"
)

// A folder of transformers is converted once and kept in the home, under the
// digest of all input of the conversion, whatever the folder's name and times.
// Sizes and modification times are not enough: both can be set for other bytes
// (tar, rsync -t, touch), and the old model would be used for the new one.
//
// Hashing costs a second for every gigabyte or two. A folder that was hashed
// before is therefore recognized by the identity of its files and the time of
// their last change (ctime), which cannot be set; if the system does not
// provide it, or a file is so young that a second change could have the same
// time, the bytes are hashed again.

const (
	convertedDir = "converted"    // in the cache: DIGEST.gguf, or DIGEST.vision
	foldersFile  = "folders.json" // in the home: the hashed folders
)

// maxFolder bounds the files of a folder that are hashed.
const maxFolder = 8192

// young is how old a change must be to distinguish it from the next one.
const young = 2 * time.Second

// knownFolder is a folder of transformers as it was when it was hashed.
type knownFolder struct {
	Digest string               `json:"digest"` // of its content, hex
	Files  map[string]fileState `json:"files"`
}

// fileState identifies a file and its last change.
type fileState struct {
	Device  uint64 `json:"device"`
	Inode   uint64 `json:"inode"`
	Size    int64  `json:"size"`
	Changed int64  `json:"changed"` // ctime in ns
}

// ownTransformer returns the GGUF file of a folder of transformers, converted
// now or before.
func (o *Opener) ownTransformer(ctx context.Context, dir string) (string, error) {
	return o.converted(ctx, dir, ".gguf", func(path string) bool { return runs(path, false) == nil }, o.convert)
}

// converted returns the path of what make writes of a folder, now or before. usable
// reports whether an earlier one is usable.
func (o *Opener) converted(ctx context.Context, dir, ext string, usable func(path string) bool, make func(ctx context.Context, dir, path string) (string, error)) (string, error) {
	digest, err := o.folderDigest(ctx, dir)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", dir, err)
	}
	cacheDir := filepath.Join(o.Cache, convertedDir)
	if err := home.CanWrite(cacheDir); err != nil { // converted for this run
		to, err := o.TempDir()
		if err != nil {
			return "", err
		}
		return make(ctx, dir, filepath.Join(to, "model"+ext))
	}
	cache, err := fsx.Create(cacheDir, 0o700, fsx.Options{})
	if err != nil {
		return "", err
	}
	defer cache.Close()
	name := digest + ext
	lock, err := cache.Lock(ctx, name+".lock")
	if err != nil {
		return "", err
	}
	defer lock.RemoveUnlock()
	path := filepath.Join(cache.Path(), name)
	if home.Exists(path) && usable(path) {
		return path, nil
	}
	// Converted in a folder that is removed after a kill, then renamed.
	scratch, err := o.Scratch()
	if err != nil {
		return "", err
	}
	result, err := make(ctx, dir, filepath.Join(scratch.Path(), name))
	if err != nil {
		return "", err
	}
	home, err := fsx.Open(o.Home, fsx.Options{})
	if err != nil {
		return "", err
	}
	defer home.Close()
	from, err := filepath.Rel(o.Home, result)
	if err != nil {
		return "", err
	}
	to, err := filepath.Rel(o.Home, path)
	if err != nil {
		return "", err
	}
	return path, home.Rename(filepath.ToSlash(from), filepath.ToSlash(to))
}

// convert writes the folder as GGUF to path and looks whether the engine runs
// it.
func (o *Opener) convert(ctx context.Context, dir, path string) (string, error) {
	opt := hf.Options{Ignore: o.Ignore}
	m, err := hf.Open(dir, opt)
	if err != nil {
		return "", weightsFault(dir, err)
	}
	hasTokenizer, notes := m.Tokenizer != nil, m.Notes
	if err := m.Close(); err != nil {
		return "", err
	}
	if !hasTokenizer {
		return "", weightsFault(dir, errors.New("it has no tokenizer.json, so that it can read no text"))
	}
	for _, note := range notes {
		o.Say("%s: %s", dir, note)
	}
	o.Say("%s is converted for the engine, once", dir)
	if _, err := hf.Convert(ctx, dir, path, opt); err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return "", weightsFault(dir, err)
	}
	if err := runs(path, false); err != nil {
		return "", weightsFault(dir, err)
	}
	return path, nil
}

// folderDigest returns the digest of the conversion's input, hashed or
// recorded.
func (o *Opener) folderDigest(ctx context.Context, path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, only := path, ""
	if !home.IsFolder(path) { // one file
		dir, only = filepath.Dir(path), filepath.Base(path)
	}
	now := time.Now()
	before, sure, err := folderState(dir, only, now)
	if err != nil {
		return "", err
	}
	records, err := home.ReadRecords[knownFolder](o.Home, foldersFile)
	if err != nil {
		records = nil // hashed, then
	}
	if old, ok := records[path]; ok && sure && maps.Equal(old.Files, before) {
		return o.keyed(old.Digest), nil
	}
	digest, err := hashFolder(ctx, dir, slices.Sorted(maps.Keys(before)))
	if err != nil {
		return "", err
	}
	after, _, err := folderState(dir, only, now)
	if err != nil {
		return "", err
	}
	if sure && maps.Equal(before, after) {
		o.know(ctx, path, knownFolder{digest, before})
	}
	return o.keyed(digest), nil
}

// know records a folder, and removes the conversion of its former content
// unless another folder has it. If recording fails, the folder is hashed again
// next time.
func (o *Opener) know(ctx context.Context, dir string, now knownFolder) {
	home.ChangeRecords(ctx, o.Home, foldersFile, func(records map[string]knownFolder) error {
		old, ok := records[dir]
		records[dir] = now
		for at, other := range records {
			if at != dir && !home.Exists(at) {
				delete(records, at)
			} else if other.Digest == old.Digest {
				ok = false
			}
		}
		if ok {
			for _, ext := range []string{".gguf", visionExt} {
				fsx.RemoveAll(filepath.Join(o.Cache, convertedDir, o.keyed(old.Digest)+ext))
			}
		}
		return nil
	})
}

// keyed adds the program and the ignored keys to a digest: another mm may convert
// otherwise.
func (o *Opener) keyed(digest string) string {
	program := strings.Join(o.Ignore, " ")
	if info, ok := debug.ReadBuildInfo(); ok {
		program += " " + info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				program += " " + s.Value
			}
		}
	}
	sum := sha256.Sum256([]byte(program + "\n" + digest))
	return hex.EncodeToString(sum[:])
}

// folderState lists the input files of a conversion, or only one. sure reports that
// a change after now would change their states.
func folderState(dir, only string, now time.Time) (files map[string]fileState, sure bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, false, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if only != "" {
		names = []string{only}
	} else {
		below, err := namesBelow(dir, entries)
		if err != nil {
			return nil, false, err
		}
		if names, err = inputNames(append(names, below...)); err != nil {
			return nil, false, err
		}
	}
	files, sure = map[string]fileState{}, true
	for _, name := range names {
		info, err := os.Stat(filepath.Join(dir, name)) // a hub's cache is full of links
		if errors.Is(err, fs.ErrNotExist) {
			continue // a broken link: an error if the conversion needs it
		}
		if err != nil {
			return nil, false, err
		}
		if info.Mode().IsDir() {
			continue
		}
		state, ok := stateOf(info)
		files[name] = state
		sure = sure && ok && now.Sub(time.Unix(0, state.Changed)) > young
	}
	return files, sure, nil
}

// namesBelow returns the files of the folders in a folder, such as the ONNX files of
// Optimum and the settings of sentence-transformers.
func namesBelow(dir string, entries []fs.DirEntry) (names []string, err error) {
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below, err := os.ReadDir(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		for _, one := range below {
			names = append(names, e.Name()+"/"+one.Name())
		}
	}
	return names, nil
}

// inputNames selects the files that a conversion may read.
func inputNames(names []string) ([]string, error) {
	names = slices.DeleteFunc(names, func(name string) bool {
		return filepath.Base(name) != "tokenizer.bin" && !slices.Contains([]string{".json", ".safetensors", ".jinja", ".md", ".model", ".txt", ".onnx", ".onnx_data", ".ort"}, filepath.Ext(name))
	})
	if len(names) > maxFolder {
		return nil, fmt.Errorf("too many files: got %d, limit %d", len(names), maxFolder)
	}
	return names, nil
}

// hashFolder hashes files of a folder with their names and sizes.
func hashFolder(ctx context.Context, dir string, names []string) (string, error) {
	all := sha256.New()
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		sum, n, err := hashFile(ctx, filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%q %d %x\n", name, n, sum)
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

func hashFile(ctx context.Context, path string) ([]byte, int64, error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	h := sha256.New()
	var total int64
	for {
		n, err := io.CopyN(h, f, 64<<20)
		total += n
		if errors.Is(err, io.EOF) {
			return h.Sum(nil), total, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, 0, err
		}
	}
}
