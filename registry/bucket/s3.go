package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3Options configures [NewS3].
type S3Options struct {
	Endpoint    string                   // URL of the server. Zero: Amazon S3
	Region      string                   // Zero: the server is asked
	Credentials *credentials.Credentials // Zero: none, requests are anonymous
	PartSize    int64                    // of uploads in parts. Zero: 16 MiB
	Transport   http.RoundTripper        // Zero: [bucket.NewTransport]
}

// S3 is a bucket of an S3 server.
type S3 struct {
	core minio.Core
	name string
	part int64
}

const (
	s3Endpoint    = "https://s3.amazonaws.com"
	s3DefaultPart = 16 << 20
	tries         = 5
)

// NewS3 opens the bucket of that name. Nothing is sent.
func NewS3(name string, opt S3Options) (*S3, error) {
	if opt.Endpoint == "" {
		opt.Endpoint = s3Endpoint
	}
	u, err := url.Parse(opt.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("S3 endpoint %q: want http:// or https:// and a host", opt.Endpoint)
	}
	lookup := minio.BucketLookupPath
	if opt.Endpoint == s3Endpoint {
		lookup = minio.BucketLookupAuto
	}
	if opt.Transport == nil {
		opt.Transport = NewTransport()
	}
	if opt.PartSize == 0 {
		opt.PartSize = s3DefaultPart
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds: opt.Credentials, Secure: u.Scheme == "https", Region: opt.Region, BucketLookup: lookup,
		Transport: s3Guard{opt.Transport}, MaxRetries: tries,
	})
	if err != nil {
		return nil, err
	}
	return &S3{minio.Core{Client: client}, name, opt.PartSize}, nil
}

// Get implements [bucket.Bucket].
func (b *S3) Get(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, Info, error) {
	var opt minio.GetObjectOptions
	if span := Range(off, n); span != "" {
		opt.Set("Range", span)
	}
	if etag != "" {
		opt.Set("If-Match", `"`+etag+`"`)
	}
	status := new(int)
	body, o, header, err := b.core.GetObject(context.WithValue(ctx, statusKey{}, status), b.name, key, opt)
	if err != nil {
		return nil, Info{}, failure(err, ErrChanged)
	}
	length, total, err := Span(header, *status, off, n)
	if err == nil && etag != "" && o.ETag != etag {
		err = ErrChanged
	}
	if err != nil {
		return nil, Info{}, errors.Join(err, body.Close())
	}
	info := s3Info(o)
	info.Key, info.Size = key, total
	return Exact(body, length), info, nil
}

// Stat implements [bucket.Bucket].
func (b *S3) Stat(ctx context.Context, key string) (Info, error) {
	o, err := b.core.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, failure(err, nil)
	}
	info := s3Info(o)
	info.Key = key
	return info, nil
}

// List implements [bucket.Bucket].
func (b *S3) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return Ordered(func(yield func(Info, error) bool) {
		ctx, cancel := context.WithCancel(context.WithValue(ctx, pagesKey{}, new(int)))
		defer cancel()
		for o := range b.core.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
			if err := failure(o.Err, nil); !yield(s3Info(o), err) || err != nil {
				return
			}
		}
	}, prefix, true)
}

// Delete implements [bucket.Bucket].
func (b *S3) Delete(ctx context.Context, key string) error {
	return failure(b.core.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{}), nil)
}

func s3Info(o minio.ObjectInfo) Info {
	info := Info{Key: o.Key, Size: o.Size, ETag: strings.Trim(o.ETag, `"`), Modified: o.LastModified.UTC()}
	for name, value := range o.UserMetadata {
		if strings.EqualFold(name, DigestKey) && IsDigest(value) {
			info.SHA256 = value
		}
	}
	return info
}

// failure maps an error of the library; a failed condition is unmet.
func failure(err, unmet error) error {
	if err == nil {
		return nil
	}
	var e minio.ErrorResponse
	if !errors.As(err, &e) {
		return err
	}
	if unmet != nil && (e.StatusCode == http.StatusPreconditionFailed || e.Code == minio.PreconditionFailed) {
		return unmet
	}
	return &StatusError{Status: e.StatusCode, Code: e.Code, Message: e.Message}
}
