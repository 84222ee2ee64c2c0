// Package s3 is the driver of buckets for Amazon S3 and the servers with its
// protocol.
//
// Credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile
// AWS_PROFILE of ~/.aws/credentials and ~/.aws/config, or the role of the
// container or the machine. AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL names another
// server than Amazon's; its buckets are addressed by path.
package s3

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

	"mm-abi.org/mm/registry/bucket"
)

// Options configures [New].
type Options struct {
	Endpoint    string                   // URL of the server. Zero: Amazon S3
	Region      string                   // Zero: the server is asked
	Credentials *credentials.Credentials // Zero: none, requests are anonymous
	PartSize    int64                    // of uploads in parts. Zero: 16 MiB
	Transport   http.RoundTripper        // Zero: [bucket.NewTransport]
}

// Bucket is a bucket of an S3 server.
type Bucket struct {
	core minio.Core
	name string
	part int64
}

const (
	defaultEndpoint = "https://s3.amazonaws.com"
	defaultPart     = 16 << 20
	tries           = 5
)

// New opens the bucket of that name. Nothing is sent.
func New(name string, opt Options) (*Bucket, error) {
	if opt.Endpoint == "" {
		opt.Endpoint = defaultEndpoint
	}
	u, err := url.Parse(opt.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("S3 endpoint %q: want http:// or https:// and a host", opt.Endpoint)
	}
	lookup := minio.BucketLookupPath
	if opt.Endpoint == defaultEndpoint {
		lookup = minio.BucketLookupAuto
	}
	if opt.Transport == nil {
		opt.Transport = bucket.NewTransport()
	}
	if opt.PartSize == 0 {
		opt.PartSize = defaultPart
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds: opt.Credentials, Secure: u.Scheme == "https", Region: opt.Region, BucketLookup: lookup,
		Transport: guard{opt.Transport}, MaxRetries: tries,
	})
	if err != nil {
		return nil, err
	}
	return &Bucket{minio.Core{Client: client}, name, opt.PartSize}, nil
}

// Get implements [bucket.Bucket].
func (b *Bucket) Get(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, bucket.Info, error) {
	var opt minio.GetObjectOptions
	if span := bucket.Range(off, n); span != "" {
		opt.Set("Range", span)
	}
	if etag != "" {
		opt.Set("If-Match", `"`+etag+`"`)
	}
	status := new(int)
	body, o, header, err := b.core.GetObject(context.WithValue(ctx, statusKey{}, status), b.name, key, opt)
	if err != nil {
		return nil, bucket.Info{}, failure(err, bucket.ErrChanged)
	}
	length, total, err := bucket.Span(header, *status, off, n)
	if err == nil && etag != "" && o.ETag != etag {
		err = bucket.ErrChanged
	}
	if err != nil {
		return nil, bucket.Info{}, errors.Join(err, body.Close())
	}
	info := infoOf(o)
	info.Key, info.Size = key, total
	return bucket.Exact(body, length), info, nil
}

// Stat implements [bucket.Bucket].
func (b *Bucket) Stat(ctx context.Context, key string) (bucket.Info, error) {
	o, err := b.core.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	if err != nil {
		return bucket.Info{}, failure(err, nil)
	}
	info := infoOf(o)
	info.Key = key
	return info, nil
}

// List implements [bucket.Bucket].
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[bucket.Info, error] {
	return bucket.Ordered(func(yield func(bucket.Info, error) bool) {
		ctx, cancel := context.WithCancel(context.WithValue(ctx, pagesKey{}, new(int)))
		defer cancel()
		for o := range b.core.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
			if err := failure(o.Err, nil); !yield(infoOf(o), err) || err != nil {
				return
			}
		}
	}, prefix, true)
}

// Delete implements [bucket.Bucket].
func (b *Bucket) Delete(ctx context.Context, key string) error {
	return failure(b.core.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{}), nil)
}

func infoOf(o minio.ObjectInfo) bucket.Info {
	info := bucket.Info{Key: o.Key, Size: o.Size, ETag: strings.Trim(o.ETag, `"`), Modified: o.LastModified.UTC()}
	for name, value := range o.UserMetadata {
		if strings.EqualFold(name, bucket.DigestKey) && bucket.IsDigest(value) {
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
	return &bucket.StatusError{Status: e.StatusCode, Code: e.Code, Message: e.Message}
}
