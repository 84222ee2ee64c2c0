package farm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"mm-abi.org/mm/internal/fsx"
)

// maxBlob bounds a file of a job, in bytes.
const maxBlob = 16 << 30

// PutBytes stores data, unless the queue has it, and returns its digest.
func (q *Queue) PutBytes(ctx context.Context, data []byte) (string, error) {
	sum := hexSum(data)
	return sum, q.put(ctx, sum, int64(len(data)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
}

// PutFile stores a file, unless the queue has it, and returns its digest.
func (q *Queue) PutFile(ctx context.Context, path string) (string, error) {
	size, sum, err := fsx.Digest(path)
	if err != nil {
		return "", err
	}
	sum = strings.TrimPrefix(sum, "sha256:")
	return sum, q.put(ctx, sum, size, func() (io.ReadCloser, error) { return fsx.OpenRegular(path) })
}

// SubmitFiles stores files, the inputs of a job under their own paths, and submits the job;
// again forgets a result that failed.
func (q *Queue) SubmitFiles(ctx context.Context, j Job, files []string, again bool) (string, error) {
	j.Inputs = map[string]string{}
	for _, name := range files {
		sum, err := q.PutFile(ctx, name)
		if err != nil {
			return "", err
		}
		j.Inputs[filepath.ToSlash(name)] = sum
	}
	if again {
		_, id, err := j.Encode()
		if err == nil {
			err = q.Forget(ctx, id)
		}
		if err != nil {
			return "", err
		}
	}
	return q.Submit(ctx, j)
}

// put stores the content that open returns under its digest.
func (q *Queue) put(ctx context.Context, sum string, size int64, open func() (io.ReadCloser, error)) error {
	if size > maxBlob {
		return fmt.Errorf("file of a job: got %d bytes, limit %d", size, int64(maxBlob))
	}
	exists := false
	err := request(ctx, func(ctx context.Context) error {
		info, err := q.blobs.GetInfo(ctx, sum)
		exists = err == nil && contentOf(info) == sum
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			return nil
		}
		return err
	})
	if err != nil || exists {
		return err
	}
	return again(ctx, func() error {
		r, err := open()
		if err != nil {
			return final{err}
		}
		defer r.Close()
		_, err = q.blobs.Put(ctx, jetstream.ObjectMeta{Name: sum}, r)
		return err
	})
}

// contentOf returns the hex SHA-256 of stored content, as the client that stored it computed
// it: a file that changed meanwhile has the name of other content.
func contentOf(info *jetstream.ObjectInfo) string {
	sum, err := jetstream.DecodeObjectDigest(info.Digest)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(sum)
}

// GetBytes returns content of at most limit bytes by its digest.
func (q *Queue) GetBytes(ctx context.Context, sum string, limit int64) ([]byte, error) {
	var b bytes.Buffer
	err := q.get(ctx, sum, func(r io.Reader) error {
		b.Reset()
		return verified(&b, r, sum, limit)
	})
	return b.Bytes(), err
}

// GetFile writes content to a file in dir, unless the file has the digest.
func (q *Queue) GetFile(ctx context.Context, sum, dir, name string) error {
	path := filepath.Join(dir, filepath.FromSlash(name))
	if _, have, err := fsx.Digest(path); err == nil && have == "sha256:"+sum {
		return nil
	}
	return q.get(ctx, sum, func(r io.Reader) error {
		return fsx.Replace(path, 0o644, func(w io.Writer) error { return verified(w, r, sum, maxBlob) })
	})
}

// lag is the number of attempts in which a replica may lack content.
const lag = 5

// get passes content to use, again after an error.
func (q *Queue) get(ctx context.Context, sum string, use func(io.Reader) error) error {
	if !digest().MatchString(sum) {
		return fmt.Errorf("invalid digest of a file %q, want a SHA-256", sum)
	}
	missing := 0
	return again(ctx, func() error {
		r, err := q.blobs.Get(ctx, sum)
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			if missing++; missing > lag {
				return final{fmt.Errorf("file %.12s…: not in the queue", sum)}
			}
			return err
		}
		if err != nil {
			return err
		}
		return errors.Join(use(r), r.Close())
	})
}

// verified copies content of at most limit bytes and compares its digest.
func verified(w io.Writer, r io.Reader, sum string, limit int64) error {
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(r, limit+1))
	var path *fs.PathError
	switch {
	case n > limit:
		return final{fmt.Errorf("file %.12s…: more than %d bytes", sum, limit)}
	case errors.As(err, &path):
		return final{err}
	case err != nil:
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		return final{fmt.Errorf("file %.12s…: digest mismatch: got %.12s…", sum, got)}
	}
	return nil
}
