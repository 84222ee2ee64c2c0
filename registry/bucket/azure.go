package bucket

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// AzureOptions configures [NewAzure]. At most one of Key, SAS and Token is set.
type AzureOptions struct {
	Endpoint string                                    // URL of the account. Zero: https://ACCOUNT.blob.core.windows.net
	Key      []byte                                    // shared key
	SAS      string                                    // query of a shared access signature
	Token    func(ctx context.Context) (string, error) // access token
	PartSize int64                                     // of uploads in blocks. Zero: 16 MiB
}

// Azure is a container of a storage account.
type Azure struct {
	client             *http.Client
	base               *url.URL
	account, container string
	opt                AzureOptions
}

const (
	azureVersion     = "2021-12-02" // of the interface
	azureDefaultPart = 16 << 20
)

// NewAzure opens a container. Nothing is sent.
func NewAzure(account, container string, opt AzureOptions) (*Azure, error) {
	if opt.Endpoint == "" {
		opt.Endpoint = "https://" + account + ".blob.core.windows.net"
	}
	if opt.PartSize == 0 {
		opt.PartSize = azureDefaultPart
	}
	u, err := url.Parse(opt.Endpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("endpoint of Azure Blob Storage %q: want a URL", opt.Endpoint)
	}
	return &Azure{NewClient(NewTransport()), u, account, container, opt}, nil
}

// azureRequest describes a request that can be repeated.
type azureRequest struct {
	method string
	key    string // "": the container
	query  url.Values
	header map[string]string
	body   func() io.Reader // nil: none
	length int64
	unmet  error // of status 412, and of 409 where the blob exists
}

// url returns the address of the container or of a blob.
func (b *Azure) url(key string, query url.Values) *url.URL {
	u := *b.base
	u.Path = strings.TrimSuffix(b.base.Path, "/") + "/" + b.container
	if key != "" {
		u.Path += "/" + key
	}
	segments := strings.Split(u.Path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	u.RawPath = strings.Join(segments, "/")
	u.RawQuery = query.Encode()
	return &u
}

// do sends a request once. The caller closes the body of the answer.
func (b *Azure) do(ctx context.Context, r azureRequest) (*http.Response, error) {
	var body io.Reader
	if r.body != nil && r.length > 0 {
		body = r.body()
	}
	u := b.url(r.key, r.query)
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = r.length
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	if err := b.authorize(ctx, req); err != nil {
		return nil, err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		var e *url.Error // its URL may hold a signature
		if errors.As(err, &e) {
			e.URL = u.Scheme + "://" + u.Host + u.EscapedPath()
		}
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	e := ReadStatus(resp, parseAzureError)
	if code := resp.Header.Get("X-Ms-Error-Code"); code != "" {
		e.Code = code
	}
	if r.unmet != nil && (e.Status == http.StatusPreconditionFailed || e.Code == "BlobAlreadyExists") {
		return nil, r.unmet
	}
	return nil, e
}

func parseAzureError(body []byte) (code, message string) {
	var e struct{ Code, Message string }
	if xml.Unmarshal(bytes.TrimPrefix(body, []byte("\ufeff")), &e) != nil {
		return "", ""
	}
	message, _, _ = strings.Cut(e.Message, "\n")
	return e.Code, message
}

// ask sends a request, repeatedly, and returns the headers and the text.
func (b *Azure) ask(ctx context.Context, r azureRequest) (header http.Header, text []byte, err error) {
	err = Retry(ctx, func() error {
		resp, err := b.do(ctx, r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		header = resp.Header
		text, err = ReadText(resp)
		return err
	})
	return header, text, err
}

// Get implements [bucket.Bucket].
func (b *Azure) Get(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, Info, error) {
	r := azureRequest{method: http.MethodGet, key: key, unmet: ErrChanged, header: map[string]string{}}
	if span := Range(off, n); span != "" {
		r.header["Range"] = span
	}
	if etag != "" {
		r.header["If-Match"] = `"` + etag + `"`
	}
	resp, err := b.do(ctx, r)
	if err != nil {
		return nil, Info{}, err
	}
	length, total, err := Span(resp.Header, resp.StatusCode, off, n)
	info := azureInfo(key, total, resp.Header)
	if err == nil && etag != "" && info.ETag != etag {
		err = ErrChanged
	}
	if err != nil {
		return nil, Info{}, errors.Join(err, resp.Body.Close())
	}
	return Exact(resp.Body, length), info, nil
}

func azureInfo(key string, size int64, h http.Header) Info {
	info := Info{Key: key, Size: size, ETag: strings.Trim(h.Get("Etag"), `"`)}
	if at, err := http.ParseTime(h.Get("Last-Modified")); err == nil {
		info.Modified = at.UTC()
	}
	if d := h.Get("X-Ms-Meta-" + DigestKey); IsDigest(d) {
		info.SHA256 = d
	}
	return info
}

// Stat implements [bucket.Bucket].
func (b *Azure) Stat(ctx context.Context, key string) (Info, error) {
	header, _, err := b.ask(ctx, azureRequest{method: http.MethodHead, key: key})
	if err != nil {
		return Info{}, err
	}
	_, size, err := Span(header, http.StatusOK, 0, -1)
	return azureInfo(key, size, header), err
}

// listing is a page of a listing.
type listing struct {
	Blobs struct {
		Blob []struct {
			Name       string
			Properties struct {
				LastModified string `xml:"Last-Modified"`
				Etag         string
				Length       int64 `xml:"Content-Length"`
			}
		}
	}
	NextMarker string
}

// List implements [bucket.Bucket]. The order of accounts with folders is not
// that of the keys.
func (b *Azure) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return Pages(prefix, false, func(mark string) ([]Info, string, error) {
		query := url.Values{"restype": {"container"}, "comp": {"list"}, "prefix": {prefix}}
		if mark != "" {
			query.Set("marker", mark)
		}
		_, text, err := b.ask(ctx, azureRequest{method: http.MethodGet, query: query})
		if err != nil {
			return nil, "", err
		}
		var page listing
		if err := xml.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &page); err != nil {
			return nil, "", fmt.Errorf("%w: %w", ErrAnswer, err)
		}
		var list []Info
		for _, o := range page.Blobs.Blob {
			info := Info{Key: o.Name, Size: o.Properties.Length, ETag: strings.Trim(o.Properties.Etag, `"`)}
			if at, err := time.Parse(time.RFC1123, o.Properties.LastModified); err == nil {
				info.Modified = at.UTC()
			}
			list = append(list, info)
		}
		return list, page.NextMarker, nil
	})
}

// Delete implements [bucket.Bucket].
func (b *Azure) Delete(ctx context.Context, key string) error {
	_, _, err := b.ask(ctx, azureRequest{method: http.MethodDelete, key: key})
	return err
}
