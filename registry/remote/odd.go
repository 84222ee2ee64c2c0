package remote

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"mm-abi.org/mm/internal/diag"
)

// OddError reports an answer that the OCI distribution-spec does not allow. The
// registry, or a proxy in front of it, is at fault; the artifact was not judged.
type OddError struct {
	Host    string // of the registry
	Request string // method and URL, without the query
	Answer  string
}

// Error returns the host, the request and the answer.
func (e *OddError) Error() string {
	return diag.Printable(fmt.Sprintf("unexpected answer from registry %s to %s: %s", e.Host, e.Request, e.Answer))
}

// Hint returns a way out.
func (e *OddError) Hint() string {
	return "the registry or a proxy in front of it is at fault, not the artifact; try again, or report the request to its operator"
}

// odd returns an [OddError] about resp.
func odd(resp *http.Response, format string, args ...any) error {
	e := &OddError{Answer: fmt.Sprintf(format, args...)}
	if resp.Request != nil {
		e.Host, e.Request = resp.Request.URL.Host, resp.Request.Method+" "+withoutQuery(*resp.Request.URL).String()
	}
	return e
}

// notJSON describes a body that is not the expected JSON document.
func notJSON(header http.Header, data []byte) string {
	start := bytes.TrimLeft(data, " \t\r\n\ufeff")
	kind := header.Get("Content-Type")
	switch {
	case len(start) == 0:
		return "an empty body"
	case start[0] == '<' || strings.Contains(kind, "html"):
		return "an HTML page, want JSON"
	}
	return fmt.Sprintf("%q of type %q, want JSON", start[:min(len(start), 40)], kind)
}

// ProxyError reports a proxy that asks for a login, or does not connect.
type ProxyError struct {
	Proxy  string // without its login
	Status string
	scheme string // of the request
}

// Error names the proxy.
func (e *ProxyError) Error() string { return fmt.Sprintf("proxy %s: %s", e.Proxy, e.Status) }

// Hint returns a way out.
func (e *ProxyError) Hint() string {
	return "put its login into " + strings.ToUpper(e.scheme) + "_PROXY (http://USER:PASSWORD@HOST:PORT), or name the registry in NO_PROXY"
}

// proxyError returns the error of an answer of a proxy.
func proxyError(proxy *url.URL, scheme, status string) error {
	return &ProxyError{Proxy: withoutQuery(*proxy).String(), Status: status, scheme: scheme}
}

// connectError adds a way out to an error of a connection that the user's flags or
// clock can mend.
func connectError(err error) error {
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return diag.Hinted(err, "if the registry has a certificate of a private authority, name the authority's file by --ca-file or SSL_CERT_FILE")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return diag.Hinted(err, "the registry needs another certificate, unless this machine's clock is wrong")
	case errors.Is(err, http.ErrSchemeMismatch):
		return diag.Hinted(err, "if the registry has no TLS, allow HTTP by --plain-http HOST:PORT")
	}
	return err
}
