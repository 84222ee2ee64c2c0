// Package hub publishes files to model hubs with the Hugging Face Hub's protocol,
// and fetches them.
//
// [Client.Push] commits files: large ones through the Git LFS batch protocol by
// their SHA-256, small ones within the commit. Objects that the hub holds already
// are not sent, so a repeated push resumes. [Client.Pull] lists
// a revision, fetches its files by ranges where a part exists, and checks each
// one against the SHA-256 or the Git blob id of the listing.
//
// Documentation: the hub's HTTP API and the Git LFS batch and basic transfer
// protocols. The hub's own chunk protocol (Xet) is not used.
package hub

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode"

	"oras.land/oras-go/v2/registry/remote/retry"

	"mm-abi.org/mm/internal/httpx"
)

// Endpoint is the hub unless HF_ENDPOINT names another.
const Endpoint = "https://huggingface.co"

// Options configures a [Client].
type Options struct {
	Endpoint  string            // URL of the hub. Empty: [Endpoint]
	Token     string            // sent to the hub's host only. Empty: none
	Transport http.RoundTripper // Nil: http.DefaultTransport
}

// Client sends requests to a hub.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// New returns a client.
func New(opt Options) (*Client, error) {
	if opt.Endpoint == "" {
		opt.Endpoint = Endpoint
	}
	base, err := url.Parse(strings.TrimSuffix(opt.Endpoint, "/"))
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("bad URL of the hub %q, want https://HOST", opt.Endpoint)
	}
	if opt.Token != "" && base.Scheme == "http" && !loopback(base.Hostname()) {
		return nil, fmt.Errorf("URL of the hub %q: a token is sent over https only", opt.Endpoint)
	}
	if opt.Transport == nil {
		opt.Transport = httpx.Transport()
	}
	c := &Client{base: base, token: opt.Token}
	c.http = &http.Client{Transport: retry.NewTransport(opt.Transport), CheckRedirect: c.redirect}
	return c, nil
}

// maxRedirects limits the redirects of a request.
const maxRedirects = 10

// redirect follows a redirect without the token if it leads to another host, a
// subdomain included.
func (c *Client) redirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case req.URL.Scheme != "https" && c.base.Scheme == "https":
		return fmt.Errorf("redirect from https to %s", req.URL.Scheme)
	case req.URL.Host != c.base.Host:
		req.Header.Del("Authorization")
	}
	return nil
}

func loopback(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// Ref names a revision of a repository, or one quantization of its GGUF files.
type Ref struct {
	Repository string // OWNER/NAME
	Revision   string // branch, tag or commit. Empty: main
	Quant      string // such as Q4_K_M. Empty: all files
}

// Prefixes of references to hubs.
var prefixes = []string{"hf://", "hf.co/", "huggingface.co/"}

// IsRef reports whether a reference names a repository of a hub.
func IsRef(text string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(text, p) {
			return true
		}
	}
	return false
}

// ParseRef parses hf://OWNER/NAME[:QUANT][@REVISION], or hf.co/… for the same.
func ParseRef(text string) (Ref, error) {
	rest := text
	for _, p := range prefixes {
		rest = strings.TrimPrefix(rest, p)
	}
	rest, revision, _ := strings.Cut(rest, "@")
	rest, quant, _ := strings.Cut(rest, ":")
	r := Ref{Repository: rest, Revision: revision, Quant: quant}
	owner, name, two := strings.Cut(rest, "/")
	if !IsRef(text) || !two || !word(owner) || !word(name) {
		return r, fmt.Errorf("bad reference %q, want hf://OWNER/NAME[:QUANT][@REVISION]", text)
	}
	if quant != "" && !word(quant) || strings.Contains(text, "@") && !revisionWord(revision) || strings.HasSuffix(text, ":") {
		return r, fmt.Errorf("bad reference %q: got quantization %q and revision %q", text, quant, revision)
	}
	return r, nil
}

// String returns the reference.
func (r Ref) String() string {
	s := prefixes[0] + r.Repository
	if r.Quant != "" {
		s += ":" + r.Quant
	}
	if r.Revision != "" {
		s += "@" + r.Revision
	}
	return s
}

// revision returns the revision, escaped as one element of a path.
func (r Ref) revision() string {
	if r.Revision == "" {
		return "main"
	}
	return url.PathEscape(r.Revision)
}

// maxName limits a name, as the hub does.
const maxName = 96

// word reports whether s is a name as the hub has them.
func word(s string) bool {
	return s != "" && len(s) <= maxName && !strings.HasPrefix(s, ".") && !strings.HasPrefix(s, "-") && !strings.Contains(s, "..") &&
		strings.IndexFunc(s, func(c rune) bool {
			return c != '-' && c != '_' && c != '.' && (c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c))
		}) < 0
}

// revisionWord reports whether s is a branch such as refs/pr/1, a tag or a commit.
func revisionWord(s string) bool {
	for part := range strings.SplitSeq(s, "/") {
		if !word(part) {
			return false
		}
	}
	return len(s) <= maxName
}

// maxPath limits the path of a file.
const maxPath = 512

// checkPath refuses paths that leave a folder or that a file system cannot have.
func checkPath(p string) error {
	switch {
	case p == "" || len(p) > maxPath || p != path.Clean(p) || strings.HasPrefix(p, "/") || p == ".." || strings.HasPrefix(p, "../"):
	case strings.ContainsFunc(p, func(c rune) bool { return c == '\\' || c == ':' || unicode.IsControl(c) }):
	case p == ".git" || strings.HasPrefix(p, ".git/"):
	default:
		return nil
	}
	return fmt.Errorf("bad path %.80q of a file", p)
}

// ErrMissing reports a repository, a revision or a file that the hub does not have
// or does not show without a token.
var ErrMissing = errors.New("not found at the hub")
