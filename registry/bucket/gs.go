package bucket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// GSOptions configures [NewGS].
type GSOptions struct {
	Endpoint string                                    // URL of the server. Zero: Google's
	Token    func(ctx context.Context) (string, error) // access token. Nil: none
	PartSize int64                                     // of uploads in parts. Zero: 16 MiB
}

// GS is a bucket of Google Cloud Storage. The ETag of an object is its
// generation.
type GS struct {
	client *http.Client
	base   *url.URL
	name   string
	opt    GSOptions
}

const (
	gsEndpoint    = "https://storage.googleapis.com"
	gsDefaultPart = 16 << 20
)

// NewGS opens the bucket of that name. Nothing is sent.
func NewGS(name string, opt GSOptions) (*GS, error) {
	if opt.Endpoint == "" {
		opt.Endpoint = gsEndpoint
	}
	if opt.PartSize == 0 {
		opt.PartSize = gsDefaultPart
	}
	u, err := url.Parse(opt.Endpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("endpoint of Google Cloud Storage %q: want a URL", opt.Endpoint)
	}
	return &GS{NewClient(NewTransport()), u, name, opt}, nil
}

// gsObject is the description of an object.
type gsObject struct {
	Name       string            `json:"name"`
	Size       string            `json:"size,omitempty"`
	Generation string            `json:"generation,omitempty"`
	Updated    time.Time         `json:"updated,omitzero"`
	CRC32C     string            `json:"crc32c,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
}

func (o gsObject) info() (Info, error) {
	size, err := strconv.ParseInt(o.Size, 10, 64)
	if err != nil || size < 0 {
		return Info{}, fmt.Errorf("%w: size %q of %q", ErrAnswer, o.Size, o.Name)
	}
	info := Info{Key: o.Name, Size: size, ETag: o.Generation, Modified: o.Updated.UTC().Truncate(time.Second)}
	if d := o.Metadata[DigestKey]; IsDigest(d) {
		info.SHA256 = d
	}
	return info, nil
}

// url returns the address of the objects, or of one, with a query.
func (b *GS) url(prefix, key string, query url.Values) string {
	path := prefix + "/storage/v1/b/" + url.PathEscape(b.name) + "/o"
	if key != "" {
		path += "/" + url.PathEscape(key)
	}
	return b.base.Scheme + "://" + b.base.Host + path + "?" + query.Encode()
}

// gsRequest describes a request that can be repeated.
type gsRequest struct {
	method, url string
	header      map[string]string
	body        func() io.Reader // nil: none
	length      int64
	unmet       error // of status 412
	more        bool  // status 308 is an answer
}

// do sends a request once. The caller closes the body of the answer.
func (b *GS) do(ctx context.Context, r gsRequest) (*http.Response, error) {
	var body io.Reader
	if r.body != nil && r.length > 0 {
		body = r.body()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = r.length
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	if b.opt.Token != nil {
		token, err := b.opt.Token(ctx)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 || r.more && resp.StatusCode == http.StatusPermanentRedirect {
		return resp, nil
	}
	defer resp.Body.Close()
	e := ReadStatus(resp, parseGSError)
	switch {
	case e.Status == http.StatusPreconditionFailed && r.unmet != nil:
		return nil, r.unmet
	case e.Status == http.StatusNotFound && e.Message == "The specified bucket does not exist.":
		e.Code = "NoSuchBucket"
	}
	return nil, e
}

func parseGSError(body []byte) (code, message string) {
	var e struct {
		Error struct {
			Message string
			Errors  []struct{ Reason string }
		}
	}
	if json.Unmarshal(body, &e) != nil {
		return "", ""
	}
	if len(e.Error.Errors) > 0 {
		code = e.Error.Errors[0].Reason
	}
	return code, e.Error.Message
}

// ask sends a request, repeatedly, and decodes the answer into v.
func (b *GS) ask(ctx context.Context, r gsRequest, v any) error {
	return Retry(ctx, func() error {
		resp, err := b.do(ctx, r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return decode(resp, v)
	})
}

func decode(resp *http.Response, v any) error {
	data, err := ReadText(resp)
	if err != nil || v == nil {
		return err
	}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return nil
}

// Get implements [bucket.Bucket].
func (b *GS) Get(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, Info, error) {
	query := url.Values{"alt": {"media"}}
	if etag != "" {
		query.Set("ifGenerationMatch", etag)
	}
	r := gsRequest{method: http.MethodGet, url: b.url("", key, query), unmet: ErrChanged, header: map[string]string{}}
	if span := Range(off, n); span != "" {
		r.header["Range"] = span
	}
	resp, err := b.do(ctx, r)
	if err != nil {
		return nil, Info{}, err
	}
	length, total, err := Span(resp.Header, resp.StatusCode, off, n)
	generation := resp.Header.Get("X-Goog-Generation")
	if err == nil && etag != "" && generation != etag {
		err = ErrChanged
	}
	if err != nil {
		return nil, Info{}, errors.Join(err, resp.Body.Close())
	}
	return Exact(resp.Body, length), Info{Key: key, Size: total, ETag: generation}, nil
}

// Stat implements [bucket.Bucket].
func (b *GS) Stat(ctx context.Context, key string) (Info, error) {
	var o gsObject
	if err := b.ask(ctx, gsRequest{method: http.MethodGet, url: b.url("", key, nil)}, &o); err != nil {
		return Info{}, err
	}
	o.Name = key
	return o.info()
}

// List implements [bucket.Bucket].
func (b *GS) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return Pages(prefix, true, func(mark string) ([]Info, string, error) {
		query := url.Values{"prefix": {prefix}, "fields": {"nextPageToken,items(name,size,generation,updated)"}}
		if mark != "" {
			query.Set("pageToken", mark)
		}
		var page struct {
			Items         []gsObject
			NextPageToken string
		}
		if err := b.ask(ctx, gsRequest{method: http.MethodGet, url: b.url("", "", query)}, &page); err != nil {
			return nil, "", err
		}
		var list []Info
		for _, o := range page.Items {
			info, err := o.info()
			if err != nil {
				return nil, "", err
			}
			list = append(list, info)
		}
		return list, page.NextPageToken, nil
	})
}

// Delete implements [bucket.Bucket].
func (b *GS) Delete(ctx context.Context, key string) error {
	return b.ask(ctx, gsRequest{method: http.MethodDelete, url: b.url("", key, nil)}, nil)
}
