package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	orasregistry "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
	"oras.land/oras-go/v2/registry/remote/retry"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/httpx"
)

// Options for [New].
type Options struct {
	Credentials auth.CredentialFunc // login for a host. Zero: docker's config.json and its helpers
	PlainHTTP   []string            // hosts (with port) to use HTTP without TLS for. Zero: only the loopback interface
	TLSLoopback bool                // use TLS for the loopback interface too. Zero: plain HTTP
	TLS         *tls.Config         // roots and client certificates. Zero: the system's
	CAFile      string              // PEM file of further authorities to trust. Zero: none
	Parallel    int                 // blobs in flight at a time. Zero: 4
	Chunk       int64               // bytes of one PATCH, at most lost to a cut. Zero: 16 MiB
	Stall       time.Duration       // give up a request without progress for so long. Zero: 60 s
	MinRate     int64               // bytes a second that an answer must bring, over the Stall time. Zero: 4096; negative: any
	Timeout     time.Duration       // give up a whole push, pull or query after so long. Zero: never
	Retries     int                 // tries again after a failure without progress. Zero: 5; negative: none
	HelperTime  time.Duration       // time limit of a credential helper. Zero: 30 s
	Progress    func(Event)         // receives events, from several goroutines concurrently. Nil: none
}

// Limits on responses of registries.
const (
	maxManifest  = 4 << 20 // bytes of a manifest, an index or a page of a listing
	maxPages     = 1000    // of a listing
	maxListed    = 100_000 // tags of a repository
	maxErrorBody = 64 << 10
)

const (
	defaultParallel = 4
	defaultChunk    = 16 << 20
	defaultStall    = 60 * time.Second
	defaultRetries  = 5
	defaultMinRate  = 4 << 10
	maxRetryAfter   = time.Minute
	noticeAfter     = 10 * time.Second // of silence, before the user is notified

	briefTries = 2 // of the referrers API, until it has answered once

	defaultHelperTime = 30 * time.Second // a helper may ask for a passphrase
)

// Client talks to registries. It is safe for concurrent use.
type Client struct {
	opt     Options
	backoff backoff
	meta    *auth.Client // repeats requests by itself
	brief   *auth.Client // repeats a few times: there is another way
	bulk    *auth.Client // does not: blobs go on where they stopped
	bare    *http.Client // sends no credentials

	listless sync.Map // hosts without a referrers API, reported to the user
}

// New returns a client. The error is one of reading docker's configuration.
func New(opt Options) (*Client, error) {
	if opt.Parallel <= 0 {
		opt.Parallel = defaultParallel
	}
	if opt.Chunk <= 0 {
		opt.Chunk = defaultChunk
	}
	if opt.Stall <= 0 {
		opt.Stall = defaultStall
	}
	if opt.MinRate == 0 {
		opt.MinRate = defaultMinRate
	}
	if opt.CAFile != "" {
		conf, err := trusting(opt.TLS, opt.CAFile)
		if err != nil {
			return nil, err
		}
		opt.TLS = conf
	}
	if opt.Retries == 0 {
		opt.Retries = defaultRetries
	}
	if opt.Progress == nil {
		opt.Progress = func(Event) {}
	}
	if opt.HelperTime <= 0 {
		opt.HelperTime = defaultHelperTime
	}
	if opt.Credentials == nil {
		logins, err := newLogins(opt)
		if err != nil {
			return nil, err
		}
		opt.Credentials = logins.get
	}
	c := &Client{opt: opt, backoff: backoff{tries: max(opt.Retries, 0), base: 250 * time.Millisecond, longest: maxRetryAfter, tell: opt.Progress}}
	base := newTransport(opt)
	cache, jar := auth.NewCache(), newCookies()
	authClient := func(t http.RoundTripper, timeout time.Duration) *auth.Client {
		return &auth.Client{
			Client: &http.Client{Transport: clearGuard{oneChallenge{t}}, CheckRedirect: checkRedirect, Timeout: timeout, Jar: jar},
			Header: http.Header{"User-Agent": {userAgent}}, Cache: cache, Credential: opt.Credentials, ClientID: userAgent,
		}
	}
	c.bulk = authClient(base, 0)
	// Small requests that are repeated unchanged: all tries together last at
	// most twice the stall time.
	c.meta = authClient(&retry.Transport{Base: base, Policy: func() retry.Policy { return c.backoff }}, 2*opt.Stall)
	c.brief = authClient(&retry.Transport{Base: base, Policy: func() retry.Policy {
		few := c.backoff
		few.tries = min(few.tries, briefTries)
		return few
	}}, 2*opt.Stall)
	c.bare = c.bulk.Client
	return c, nil
}

// trusting adds the authorities in file to the system's or those of conf.
func trusting(conf *tls.Config, file string) (*tls.Config, error) {
	data, err := fsx.ReadFile(file, maxConfig)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authorities: %w", err)
	}
	if conf == nil {
		conf = &tls.Config{}
	}
	conf = conf.Clone()
	if conf.RootCAs == nil {
		if conf.RootCAs, err = x509.SystemCertPool(); err != nil {
			conf.RootCAs = x509.NewCertPool()
		}
	} else {
		conf.RootCAs = conf.RootCAs.Clone()
	}
	if !conf.RootCAs.AppendCertsFromPEM(decodeText(data)) {
		return nil, fmt.Errorf("reading the certificate authorities: %s holds no certificate in PEM", file)
	}
	return conf, nil
}

// within bounds an operation by [Options.Timeout].
func (c *Client) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.opt.Timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, c.opt.Timeout, ErrTimeout)
}

// ended adds the timeout to an error that it caused, and makes the registry's
// text printable.
func (c *Client) ended(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), ErrTimeout) {
		err = fmt.Errorf("%w after %s: %w", ErrTimeout, c.opt.Timeout, err)
	}
	return cleaned{err}
}

// cleaned is an error whose text may hold words of the other side, shown so that
// they cannot steer a terminal.
type cleaned struct{ err error }

func (e cleaned) Error() string { return diag.Printable(e.err.Error()) }
func (e cleaned) Unwrap() error { return e.err }

// Close drops idle connections.
func (c *Client) Close() { c.bulk.Client.CloseIdleConnections() }

// plain reports whether host is used without TLS.
func (c *Client) plain(host string) bool {
	return slices.Contains(c.opt.PlainHTTP, host) || httpx.IsLoopback(host) && !c.opt.TLSLoopback
}

// repository is a repository of a registry.
type repository struct {
	Reference orasregistry.Reference
	c         *Client
	plainHTTP bool
	noChunks  atomic.Bool  // the registry does not accept chunks
	vague     atomic.Bool  // the Range of its uploads cannot be relied on
	noHead    atomic.Bool  // it does not answer HEAD
	inward    atomic.Bool  // upload locations at hosts that cannot be reached are its own
	api       atomic.Int32 // its referrers API: apiUnknown, apiYes, apiNo
	waits     atomic.Int64 // for things that it named and does not show yet

	mu     sync.Mutex
	listed map[digest.Digest][]ocispec.Descriptor // referrers put under tags by this process
}

// repository opens the repository that ref names; nothing is sent.
func (c *Client) repository(ref Reference) *repository {
	host := ref.Ref.Host
	if host == dockerIndex {
		host = dockerHub
	}
	return &repository{
		c: c, Reference: orasregistry.Reference{Registry: host, Repository: ref.Ref.FullName()},
		plainHTTP: c.plain(host), listed: map[digest.Digest][]ocispec.Descriptor{},
	}
}

// warn notifies the user.
func (c *Client) warn(format string, args ...any) {
	c.opt.Progress(Event{Kind: Warned, Err: cleaned{fmt.Errorf(format, args...)}})
}

// url is the address of a part of the repository.
func (r *repository) url(part string) string {
	scheme := "https"
	if r.plainHTTP {
		scheme = "http"
	}
	if r.Reference.Repository == "" { // of the registry
		return fmt.Sprintf("%s://%s/v2/%s", scheme, r.Reference.Host(), part)
	}
	return fmt.Sprintf("%s://%s/v2/%s/%s", scheme, r.Reference.Host(), r.Reference.Repository, part)
}

// doer sends requests: with credentials and repetition, or without.
type doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// do sends a request and turns unwanted statuses into errors. The caller
// closes the body.
func do(by doer, req *http.Request, want ...int) (*http.Response, error) {
	resp, err := by.Do(req)
	if err != nil {
		var e *url.Error // redirects and sessions carry signatures in their queries
		if errors.As(err, &e) {
			if u, parseErr := url.Parse(e.URL); parseErr == nil {
				e.URL = withoutQuery(*u).String()
			}
		}
		return nil, connectError(err)
	}
	if slices.Contains(want, resp.StatusCode) {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readFailure(resp)
}

// failure is an error response.
type failure struct {
	errcode.ErrorResponse
	after time.Duration // Retry-After; -1: none
}

// Unwrap exposes the registry's error codes to errors.As.
func (f *failure) Unwrap() error { return &f.ErrorResponse }

// readFailure reads the registry's words from the answer (distribution-spec,
// Error codes).
func readFailure(resp *http.Response) error {
	f := &failure{after: -1}
	f.Method, f.URL, f.StatusCode = resp.Request.Method, withoutQuery(*resp.Request.URL), resp.StatusCode
	if d, ok := httpx.RetryAfter(resp.Header, time.Now()); ok {
		f.after = d
	}
	var body struct {
		Errors errcode.Errors `json:"errors"`
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err == nil && json.Unmarshal(data, &body) == nil {
		f.Errors = body.Errors
	}
	return f
}

// status returns the status of a failure, or 0.
func status(err error) int {
	var f *failure
	if errors.As(err, &f) {
		return f.StatusCode
	}
	var r *errcode.ErrorResponse
	if errors.As(err, &r) {
		return r.StatusCode
	}
	return 0
}

// withoutQuery keeps session tokens out of messages.
func withoutQuery(u url.URL) *url.URL {
	u.RawQuery, u.User = "", nil
	return &u
}

// hostOf is a host in the form in which hosts are compared.
func hostOf(host, scheme string) string {
	host = strings.ToLower(host)
	if scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}
