package bucket

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"
)

const (
	maxS3Parts = 10_000 // of an upload, by the protocol
	s3Parallel = 4      // parts in flight
)

// Put implements [bucket.Bucket].
func (b *S3) Put(ctx context.Context, key string, r io.ReaderAt, size int64, opt PutOptions) (Info, error) {
	if err := CheckKey(key); err != nil {
		return Info{}, err
	}
	// Without the library's chunks: a request is signed over the digest of its content.
	put := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableContentSha256: true}
	if opt.SHA256 != "" {
		put.UserMetadata = map[string]string{DigestKey: opt.SHA256}
	}
	var err error
	if size <= b.part {
		err = b.single(ctx, key, io.NewSectionReader(r, 0, size), conditional(put, opt.IfAbsent))
	} else {
		u := s3Upload{S3: b, key: key, r: r, size: size, part: max(b.part, (size+maxS3Parts-1)/maxS3Parts), opt: opt, put: put}
		err = u.run(ctx)
	}
	if err != nil {
		return Info{}, err
	}
	return b.Stat(ctx, key)
}

// conditional adds the condition that the object does not exist.
func conditional(put minio.PutObjectOptions, absent bool) minio.PutObjectOptions {
	if absent {
		put.SetMatchETagExcept("*")
	}
	return put
}

// single writes an object with one request, whose signature covers the content.
func (b *S3) single(ctx context.Context, key string, r *io.SectionReader, put minio.PutObjectOptions) error {
	_, sum256, err := s3Digests(r)
	if err != nil {
		return err
	}
	return conflicting(ctx, func() error {
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := b.core.PutObject(ctx, b.name, key, r, r.Size(), "", hex.EncodeToString(sum256), put)
		return failure(err, ErrExists)
	})
}

// conflicting repeats a write that a concurrent one of the same key disturbed.
func conflicting(ctx context.Context, write func() error) error {
	for try := 1; ; try++ {
		err := write()
		var e *StatusError
		if !errors.As(err, &e) || e.Status != http.StatusConflict || try == tries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(try) * 200 * time.Millisecond):
		}
	}
}

// s3Upload is an upload in parts.
type s3Upload struct {
	*S3
	key        string
	r          io.ReaderAt
	size, part int64
	opt        PutOptions
	put        minio.PutObjectOptions
	id         string
}

func (u *s3Upload) run(ctx context.Context) error {
	held, err := u.begin(ctx)
	if err != nil {
		return err
	}
	parts, err := u.send(ctx, held)
	if err == nil {
		err = conflicting(ctx, func() error {
			_, err := u.core.CompleteMultipartUpload(ctx, u.name, u.key, u.id, parts, conditional(u.put, u.opt.IfAbsent))
			return failure(err, ErrExists)
		})
	}
	if err != nil && u.opt.Session != nil && !errors.Is(err, ErrExists) {
		return err // the next process continues
	}
	if err != nil {
		err = errors.Join(err, u.abort(ctx))
	}
	if u.opt.Session != nil {
		err = errors.Join(err, u.opt.Session.Save(""))
	}
	return err
}

// begin continues the upload of the session, or begins one. It returns the parts
// that the server holds.
func (u *s3Upload) begin(ctx context.Context) (map[int]minio.ObjectPart, error) {
	if u.opt.Session != nil {
		if id := u.opt.Session.Load(); id != "" {
			held, err := u.held(ctx, id)
			if err == nil {
				u.id = id
				return held, nil
			}
			var e *StatusError
			if !errors.As(err, &e) || e.Status != http.StatusNotFound {
				return nil, err
			}
		}
	}
	id, err := u.core.NewMultipartUpload(ctx, u.name, u.key, u.put)
	if err != nil {
		return nil, failure(err, nil)
	}
	u.id = id
	if u.opt.Session != nil {
		return nil, u.opt.Session.Save(id)
	}
	return nil, nil
}

// held lists the parts of an upload.
func (u *s3Upload) held(ctx context.Context, id string) (map[int]minio.ObjectPart, error) {
	held := map[int]minio.ObjectPart{}
	for marker := 0; ; {
		page, err := u.core.ListObjectParts(ctx, u.name, u.key, id, marker, 1000)
		if err != nil {
			return nil, failure(err, nil)
		}
		for _, p := range page.ObjectParts {
			held[p.PartNumber] = p
		}
		if !page.IsTruncated {
			return held, nil
		}
		if page.NextPartNumberMarker <= marker {
			return nil, fmt.Errorf("%w: parts after %d: next marker %d", ErrAnswer, marker, page.NextPartNumberMarker)
		}
		marker = page.NextPartNumberMarker
	}
}

// send sends the parts that the server does not hold with their content.
func (u *s3Upload) send(ctx context.Context, held map[int]minio.ObjectPart) ([]minio.CompletePart, error) {
	n := int((u.size + u.part - 1) / u.part)
	parts := make([]minio.CompletePart, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s3Parallel)
	for i := range parts {
		group.Go(func() error {
			section := io.NewSectionReader(u.r, int64(i)*u.part, min(u.part, u.size-int64(i)*u.part))
			etag, err := u.sendPart(ctx, i+1, section, held[i+1])
			parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: etag}
			return err
		})
	}
	return parts, group.Wait()
}

func (u *s3Upload) sendPart(ctx context.Context, number int, section *io.SectionReader, held minio.ObjectPart) (string, error) {
	sum, sum256, err := s3Digests(section)
	if err != nil {
		return "", err
	}
	if etag := strings.Trim(held.ETag, `"`); held.Size == section.Size() && etag == hex.EncodeToString(sum) {
		return etag, nil
	}
	if _, err := section.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	p, err := u.core.PutObjectPart(ctx, u.name, u.key, u.id, number, section, section.Size(), minio.PutObjectPartOptions{
		Md5Base64: base64.StdEncoding.EncodeToString(sum), Sha256Hex: hex.EncodeToString(sum256), DisableContentSha256: true,
	})
	return strings.Trim(p.ETag, `"`), failure(err, nil)
}

// abort discards the parts; ctx may have ended.
func (u *s3Upload) abort(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := failure(u.core.AbortMultipartUpload(ctx, u.name, u.key, u.id), nil)
	if errors.Is(err, ErrMissing) {
		return nil
	}
	return err
}

// s3Digests returns the MD5, which the protocol compares, and the SHA-256.
func s3Digests(r io.Reader) (sum, sum256 []byte, err error) {
	m, s := md5.New(), sha256.New()
	_, err = io.Copy(io.MultiWriter(m, s), r)
	return m.Sum(nil), s.Sum(nil), err
}
