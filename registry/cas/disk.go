package cas

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/internal/fsx"
)

// Files and folders of a store. All but the blobs are outside the OCI layout,
// in a private folder.
const (
	PrivateDir  = ".mm"
	IndexLock   = PrivateDir + "/index.lock" // held to change index.json
	GCLock      = PrivateDir + "/gc.lock"    // shared by users of old blobs, exclusive for gc
	IngestDir   = PrivateDir + "/ingest"     // blobs being written
	PartialDir  = PrivateDir + "/partial"    // resumable downloads, by digest
	UploadDir   = PrivateDir + "/upload"     // resumable uploads, by session
	OutgoingDir = PrivateDir + "/upload-out" // upload sessions at registries, for a later push
	KeepDir     = PrivateDir + "/keep"       // when an old blob was last used
	DigestDir   = PrivateDir + "/digest"     // the digest cache
	JournalDir  = PrivateDir + "/journal"    // changes of names since index.json was written
	RepoDir     = PrivateDir + "/repo"       // the blobs that each served repository shows
	BlobDir     = ocispec.ImageBlobsDir
)

// ErrReadOnly reports a write to a store that was opened for reading only.
var ErrReadOnly = errors.New("store is read-only")

// ErrNotRegular reports a FIFO, a folder or a device where a file is expected.
var ErrNotRegular = errors.New("not a regular file")

// Open opens a regular file for reading, without blocking: opening a FIFO would
// otherwise wait for a writer.
func Open(dir *fsx.Dir, name string) (*os.File, error) {
	f, err := dir.Root().OpenFile(filepath.FromSlash(name), os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", name, ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadFile reads a file of at most limit bytes.
func ReadFile(dir *fsx.Dir, name string, limit int64) ([]byte, error) {
	return ReadFrom(dir, name, 0, limit)
}

// ReadFrom reads a file from offset off to its end, at most limit bytes.
func ReadFrom(dir *fsx.Dir, name string, off, limit int64) ([]byte, error) {
	f, err := Open(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, off, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes: %w", name, limit, errdef.ErrSizeExceedsLimit)
	}
	return data, nil
}

// ReadDir reads a folder, which may be missing.
func ReadDir(dir *fsx.Dir, name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(dir.Root().FS(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// IgnoreMissing returns err, or nil if a file is missing.
func IgnoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
