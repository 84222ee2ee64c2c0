package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"

	"mm-abi.org/mm/registry/registrytest"
)

// tokens guards a registry with bearer tokens that expire after a few uses.
type tokens struct {
	http.Handler
	realm string
	uses  int64

	mu     sync.Mutex
	issued int
	left   int64
	bad    []string
}

func (k *tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	if r.URL.Path == "/token" {
		user, pass, _ := r.BasicAuth()
		if user != "mm" || pass != "secret" {
			k.bad = append(k.bad, "token asked with "+user+":"+pass)
		}
		k.issued++
		k.left = k.uses
		fmt.Fprintf(w, `{"token":"t%d"}`, k.issued)
		k.mu.Unlock()
		return
	}
	ok := r.Header.Get("Authorization") == fmt.Sprintf("Bearer t%d", k.issued) && k.left > 0
	k.left--
	k.mu.Unlock()
	if !ok {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+k.realm+`/token",service="test",scope="repository:team/p-lite:pull,push"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	k.Handler.ServeHTTP(w, r)
}

func TestTokenExpiresMidway(t *testing.T) {
	k := &tokens{Handler: registrytest.New(), uses: 4}
	srv := httptest.NewServer(k)
	defer srv.Close()
	k.realm = srv.URL
	host := strings.TrimPrefix(srv.URL, "http://")
	roundTrip(t, host, Options{Parallel: 1, Credentials: auth.StaticCredential(host, auth.Credential{Username: "mm", Password: "secret"})})
	if k.issued < 4 || len(k.bad) > 0 {
		t.Errorf("%d tokens, %v", k.issued, k.bad)
	}
}

func TestWrongPasswordIsTold(t *testing.T) {
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	c := newClient(t, Options{Credentials: auth.StaticCredential(host, auth.Credential{Username: "mm", Password: "old"})})
	_, err := c.Resolve(context.Background(), host+"/x:1")
	if status(err) != http.StatusUnauthorized || strings.Contains(err.Error(), "old") {
		t.Error(err)
	}
	if _, err := newClient(t, Options{}).Resolve(context.Background(), host+"/x:1"); !errors.Is(err, auth.ErrBasicCredentialNotFound) {
		t.Error(err)
	}
}

// TestCredentialsStayHome redirects downloads and uploads to another host,
// which must see no credentials, not even when it asks for them.
func TestCredentialsStayHome(t *testing.T) {
	s := registrytest.New()
	var leaked, elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere.Add(1)
		if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
			leaked.Add(1)
		}
		s.ServeHTTP(w, r)
	}))
	defer other.Close()
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, pass, _ := r.BasicAuth(); user != "mm" || pass != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		for name, v := range rec.Header() {
			w.Header()[name] = v
		}
		if at := rec.Header().Get("Location"); at != "" {
			w.Header().Set("Location", other.URL+at)
		}
		w.WriteHeader(rec.Code)
		w.Write(rec.Body.Bytes())
	}))
	roundTrip(t, host, Options{Credentials: auth.StaticCredential(host, auth.Credential{Username: "mm", Password: "secret"})})
	if leaked.Load() > 0 || elsewhere.Load() < 10 {
		t.Errorf("%d of %d requests elsewhere had credentials", leaked.Load(), elsewhere.Load())
	}

	// A host that asks for a login after the redirect gets none.
	asking := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			leaked.Add(1)
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer asking.Close()
	host = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, asking.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	everyone := func(context.Context, string) (auth.Credential, error) {
		return auth.Credential{Username: "mm", Password: "secret"}, nil
	}
	if _, err := newClient(t, Options{Credentials: everyone}).Resolve(context.Background(), host+"/x:1"); status(err) != http.StatusUnauthorized || leaked.Load() > 0 {
		t.Errorf("%v, %d leaks", err, leaked.Load())
	}
}

func TestHTTPSIsNotLeft(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Errorf("unexpected request %s", r.URL) }))
	defer plain.Close()
	s := registrytest.New()
	mode := "redirect"
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case mode == "redirect":
			http.Redirect(w, r, plain.URL+r.URL.Path, http.StatusTemporaryRedirect)
		case mode == "location" && r.Method == http.MethodPost:
			w.Header().Set("Location", plain.URL+"/v2/x/blobs/uploads/1")
			w.WriteHeader(http.StatusAccepted)
		case mode == "scheme" && r.Method == http.MethodPost:
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, r)
			w.Header().Set("Location", "http://"+r.Host+rec.Header().Get("Location")) // a proxy in front
			w.WriteHeader(rec.Code)
		default:
			s.ServeHTTP(w, r)
		}
	}))
	defer srv.Close()
	host := strings.TrimPrefix(srv.URL, "https://")
	opt := Options{TLSLoopback: true, TLS: &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}
	if _, err := newClient(t, opt).Resolve(context.Background(), host+"/x:1"); !errors.Is(err, errRedirect) {
		t.Errorf("redirect: %v", err)
	}
	mode = "location"
	src := openStore(t)
	desc := pack(t, src, "x", layer(t, src, "x.onnx", "encoder", noise(1, 1000)))
	if _, err := newClient(t, opt).Push(context.Background(), src, desc, host+"/x:1", PushOptions{}); !errors.As(err, new(*OddError)) || errors.Is(err, ErrHostile) {
		t.Errorf("location: %v", err)
	}
	mode = "scheme"
	roundTrip(t, host, opt)

	// An untrusted certificate is not retried.
	begin := time.Now()
	c := newClient(t, Options{TLSLoopback: true})
	c.backoff.base = time.Minute
	if _, err := c.Resolve(context.Background(), host+"/x:1"); err == nil || time.Since(begin) > 20*time.Second {
		t.Errorf("unknown authority: %v after %s", err, time.Since(begin))
	}
}
