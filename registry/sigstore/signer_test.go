package sigstore

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mm-abi.org/mm/registry/sigstore/sigstoretest"
)

// signingWorld is a private Sigstore whose services answer.
type signingWorld struct {
	*sigstoretest.Services
	root    *Root
	trusted []byte // the root's file
}

// newSigningWorld starts the services of a world.
func newSigningWorld(t *testing.T, edits ...func(map[string]any)) signingWorld {
	t.Helper()
	w := sigstoretest.New(t, day)
	s, stop := w.Serve(day)
	t.Cleanup(stop)
	trusted := w.Root(edits...)
	root, err := ParseRoot(trusted)
	if err != nil {
		t.Fatal(err)
	}
	return signingWorld{s, root, trusted}
}

// options are those of a signer with a sound token.
func (w signingWorld) options(t *testing.T, stamps bool, versions ...int) SignerOptions {
	t.Helper()
	services, err := ParseServices(w.Config(stamps, versions...), day)
	if err != nil {
		t.Fatal(err)
	}
	return SignerOptions{Services: services, Root: w.root, Token: w.Token("sigstore", time.Hour), Now: day}
}

// seal makes a signer without pauses and signs.
func (o SignerOptions) seal(ctx context.Context) ([]byte, error) {
	s, err := NewSigner(ctx, o)
	if err != nil {
		return nil, err
	}
	s.asker.pause = 0
	return s.Seal(ctx, "application/vnd.in-toto+json", []byte(`{"a":1}`))
}

func TestSigner(t *testing.T) {
	w := newSigningWorld(t)
	for name, o := range map[string]SignerOptions{
		"log of version 1":            w.options(t, false, 1),
		"log of version 1 and stamps": w.options(t, true, 1),
		"log of version 2":            w.options(t, true, 2),
		"the better of both":          w.options(t, true, 1, 2),
	} {
		t.Run(name, func(t *testing.T) {
			data, err := o.seal(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b, err := Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			v, err := b.Verify(w.root)
			if err != nil {
				t.Fatal(err)
			}
			if v.Subject != "https://forge.test/repo:org/repo" || v.Issuer != "https://issuer.test" || string(b.Envelope.Payload) != `{"a":1}` {
				t.Errorf("got %+v, %s", v, b.Envelope.Payload)
			}
		})
	}
}

// Each answer that the root does not confirm ends the signature, the earlier the less is
// public.
func TestSignerRefuses(t *testing.T) {
	w := newSigningWorld(t)
	other := newSigningWorld(t)
	type signing = sigstoretest.Signing
	for name, c := range map[string]struct {
		wrong  signing
		edit   func(*SignerOptions)
		want   string
		logged bool
	}{
		"another authority":               {wrong: signing{ForeignAuthority: true}, want: "certificate authority: certificate:"},
		"certificate in no log":           {wrong: signing{NoTimestamps: true}, want: "signed certificate timestamp: 0 timestamps"},
		"log of certificates":             {wrong: signing{ForeignCertificateLog: true}, want: "signed certificate timestamp: not signed by the log"},
		"certificate of others":           {wrong: signing{ForeignSignature: true}, want: "the certificate is of another key"},
		"expired certificate":             {wrong: signing{NotBefore: day.Add(-time.Hour), NotAfter: day.Add(-time.Minute)}, want: "does not confirm the answers of the services: certificate: ", logged: true},
		"stamp of another":                {wrong: signing{OtherStamp: true}, want: "time: the answer of"},
		"stamp by another":                {wrong: signing{ForeignStamp: true}, want: "time: the answer of"},
		"entry about another":             {wrong: signing{OtherSignature: true}, want: "log entry: ", logged: true},
		"foreign checkpoint":              {wrong: signing{ForeignCheckpoint: true}, want: "checkpoint: ", logged: true},
		"checkpoint of another":           {wrong: signing{OtherTree: true}, want: "checkpoint: it is of another tree", logged: true},
		"proof of another leaf":           {wrong: signing{OtherLeaf: true}, want: "inclusion proof: ", logged: true},
		"promise by another":              {edit: func(o *SignerOptions) { o.Services.logs[0] = service{w.URL + "/rekor", 1} }, wrong: signing{ForeignPromise: true}, want: "signed entry timestamp: ", logged: true},
		"log outside of the trusted root": {edit: func(o *SignerOptions) { o.Services.logs[0].url = other.URL + "/tiles" }, want: "a log that the trusted root does not name", logged: true},
		"token for others":                {edit: func(o *SignerOptions) { o.Token = w.Token("registry", time.Hour) }, want: `identity token: got the audience "registry", want "sigstore"`},
		"expired token":                   {edit: func(o *SignerOptions) { o.Token = w.Token("sigstore", -time.Second) }, want: "identity token: expired at 2026-"},
		"token of another issuer":         {edit: func(o *SignerOptions) { o.Token = other.Token("sigstore", time.Hour) }, want: "400 Bad Request: the token is not by the issuer"},
		"no token":                        {edit: func(o *SignerOptions) { o.Token, o.Getenv = "", func(string) string { return "" } }, want: "no identity token: SIGSTORE_ID_TOKEN is not set"},
		"words instead of a token":        {edit: func(o *SignerOptions) { o.Token = "let me in" }, want: "want a JSON Web Token"},
		"token of other characters":       {edit: func(o *SignerOptions) { o.Token = "a.!.c" }, want: "not base64url"},
		"token without JSON":              {edit: func(o *SignerOptions) { o.Token = "a.aGVsbG8.c" }, want: "identity token: not JSON"},
		"token beyond the limit":          {edit: func(o *SignerOptions) { o.Token = strings.Repeat("a", MaxToken+1) }, want: "identity token: got 65537 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			o := w.options(t, true, 2)
			if c.edit != nil {
				c.edit(&o)
			}
			w.Break(c.wrong, nil)
			other.Break(signing{}, nil)
			data, err := o.seal(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || data != nil {
				t.Errorf("got %v, want %q", err, c.want)
			}
			asked := append(w.Asked(), other.Asked()...)
			if got := slices.ContainsFunc(asked, func(p string) bool { return strings.HasSuffix(p, "/log/entries") }); got != c.logged {
				t.Errorf("logged: got %v, want %v", got, c.logged)
			}
			if strings.Contains(fmt.Sprint(err), o.Token) && o.Token != "" {
				t.Error("the error holds the token")
			}
		})
	}
}

// Services that fail, redirect, answer nonsense or hang.
func TestSignerServices(t *testing.T) {
	w := newSigningWorld(t)
	for path, name := range map[string]string{"/fulcio/api/v2/signingCert": "Fulcio", "/tiles/api/v2/log/entries": "Rekor", "/stamps": "time stamp authority"} {
		for _, c := range []struct {
			what, want string
			times      int // that it is asked
			answer     func(http.ResponseWriter)
		}{
			{"503", "503 Service Unavailable: busy", tries, func(rw http.ResponseWriter) { http.Error(rw, "busy", http.StatusServiceUnavailable) }},
			{"429", "429 Too Many Requests", tries, func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusTooManyRequests) }},
			{"409", "409 Conflict: again there", 1, func(rw http.ResponseWriter) { http.Error(rw, "again\x1b\nthere", http.StatusConflict) }},
			{"redirection", "redirection (307 Temporary Redirect), which is not followed", 1, func(rw http.ResponseWriter) {
				rw.Header().Set("Location", w.URL+"/elsewhere")
				rw.WriteHeader(http.StatusTemporaryRedirect)
			}},
			{"nothing", "", 1, func(http.ResponseWriter) {}},
			{"words", "", 1, func(rw http.ResponseWriter) { _, _ = rw.Write([]byte("hello")) }},
			{"an empty object", "", 1, func(rw http.ResponseWriter) { _, _ = rw.Write([]byte("{}")) }},
			{"too much", "answer of more than 4194304 bytes", 1, func(rw http.ResponseWriter) { _, _ = rw.Write(make([]byte, maxAnswer+1)) }},
		} {
			t.Run(name+" "+c.what, func(t *testing.T) {
				o := w.options(t, true, 2)
				s, err := NewSigner(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				s.asker.pause = 0
				w.Break(sigstoretest.Signing{}, func(rw http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path != path {
						return false
					}
					c.answer(rw)
					return true
				})
				if name == "Fulcio" {
					err = s.certify(t.Context(), o.Token)
				} else {
					_, err = s.Seal(t.Context(), "x", []byte("{}"))
				}
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if n := len(slices.DeleteFunc(w.Asked(), func(p string) bool { return p != path })); n != c.times {
					t.Errorf("asked %d times, want %d", n, c.times)
				}
				w.Break(sigstoretest.Signing{}, nil)
			})
		}
	}
}

// A service that fails once is asked again, after a pause.
func TestAskAgain(t *testing.T) {
	w := newSigningWorld(t)
	failed := map[string]bool{}
	w.Break(sigstoretest.Signing{}, func(rw http.ResponseWriter, r *http.Request) bool {
		if failed[r.URL.Path] {
			return false
		}
		failed[r.URL.Path] = true
		rw.WriteHeader(http.StatusBadGateway)
		return true
	})
	a := newAsker(nil)
	a.pause = 0
	o := w.options(t, true, 2)
	s, err := NewSigner(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Seal(t.Context(), "x", []byte("{}")); err != nil || len(failed) != 3 {
		t.Errorf("got %v with %d failures", err, len(failed))
	}
}

// silent is a transport that answers when the request ends.
type silent struct{}

// RoundTrip waits for the end of the request.
func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAskPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		a := newAsker(silent{})
		_, err := a.ask(t.Context(), question{service: "Fulcio", url: "https://fulcio.test/?secret=1"})
		if took := time.Since(start); err == nil || !strings.Contains(err.Error(), "no answer within 30s") || strings.Contains(err.Error(), "secret") || took != maxPatience {
			t.Errorf("got %v after %s", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.ask(ctx, question{service: "Fulcio", url: "https://fulcio.test"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's end", err)
		}
	})
}

// failingTransport is a transport that fails.
type failingTransport struct{}

// RoundTrip fails.
func (failingTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("no route")
}

// Messages hold neither the address, whose query may be a secret, nor a long answer.
func TestAskMessages(t *testing.T) {
	a := newAsker(failingTransport{})
	for _, address := range []string{"https://fulcio.test/?secret=1", "https://fulcio.test/%zz?secret=1"} {
		if _, err := a.ask(t.Context(), question{service: "Fulcio", url: address}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	}
	for n, want := range map[int]int{200: 200, 201: 200} {
		if got := printable([]byte(strings.Repeat("x", n))); len(got) != want {
			t.Errorf("%d bytes: got %d, want %d", n, len(got), want)
		}
	}
}

func TestEnvironmentToken(t *testing.T) {
	w := newSigningWorld(t)
	actions := map[string]string{requestVariable: w.URL + "/token?job=1", bearerVariable: "request-secret"}
	for _, c := range []struct {
		name        string
		environment map[string]string
		want        string
	}{
		{"GitLab", map[string]string{tokenVariable: w.Token("sigstore", time.Hour) + "\n"}, ""},
		{"GitHub Actions", actions, ""},
		{"no permission", map[string]string{requestVariable: w.URL + "/token"}, "no identity token"},
		{"another secret", map[string]string{requestVariable: w.URL + "/token?job=1", bearerVariable: "x"}, "GitHub Actions at 127.0.0.1"},
		{"plain address", map[string]string{requestVariable: "http://actions.test/", bearerVariable: "x"}, "want https"},
		{"no token in it", map[string]string{requestVariable: w.URL + "/token?job=1&empty=1", bearerVariable: "request-secret"}, "answer without a token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.Break(sigstoretest.Signing{}, func(rw http.ResponseWriter, r *http.Request) bool {
				empty := r.URL.Query().Get("empty") != ""
				if empty {
					_, _ = rw.Write([]byte(`{"count":0}`))
				}
				return empty
			})
			o := w.options(t, false, 1)
			o.Token, o.Getenv = "", func(name string) string { return c.environment[name] }
			_, err := o.seal(t.Context())
			if (c.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "job=1")) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// config is a signing configuration with edits.
func config(edit func(c map[string]any)) []byte {
	one := func(url string, version int, start, operator string) any {
		return map[string]any{"url": url, "majorApiVersion": version, "validFor": map[string]any{"start": start}, "operator": operator}
	}
	c := map[string]any{
		"mediaType": servicesType, "caUrls": []any{one("https://ca.test", 1, "2026-01-01T00:00:00Z", "a")},
		"rekorTlogUrls": []any{
			one("https://old.test", 2, "2025-01-01T00:00:00Z", "a"), one("https://new.test", 2, "2026-01-01T00:00:00Z", "a"),
			one("https://other.test", 2, "2025-06-01T00:00:00Z", "b"), one("https://v1.test", 1, "2026-02-01T00:00:00Z", "a"), one("https://v3.test", 3, "2026-02-01T00:00:00Z", "c"),
		},
		"tsaUrls":         []any{one("https://tsa.test/api/v1/timestamp", 1, "2026-01-01T00:00:00Z", "a")},
		"rekorTlogConfig": map[string]any{"selector": "ANY"}, "tsaConfig": map[string]any{"selector": "ANY"},
	}
	if edit != nil {
		edit(c)
	}
	data, _ := json.Marshal(c)
	return data
}

func TestParseServices(t *testing.T) {
	selector := func(name string, count int) func(map[string]any) {
		return func(c map[string]any) { c["rekorTlogConfig"] = map[string]any{"selector": name, "count": count} }
	}
	url := func(text string) func(map[string]any) {
		return func(c map[string]any) { c["caUrls"].([]any)[0].(map[string]any)["url"] = text }
	}
	long := func(n int) string { return "https://ca.test/" + strings.Repeat("a", n-len("https://ca.test/")) }
	for name, c := range map[string]struct {
		edit func(map[string]any)
		logs []string
		want string
	}{
		"any":          {nil, []string{"https://new.test"}, ""},
		"all":          {selector("ALL", 0), []string{"https://new.test", "https://other.test"}, ""},
		"two":          {selector("EXACT", 2), []string{"https://new.test", "https://other.test"}, ""},
		"three":        {selector("EXACT", 3), nil, "rekorTlogUrls: got 2"},
		"none":         {selector("EXACT", 0), nil, "rekorTlogUrls: got 2"},
		"version 1":    {func(c map[string]any) { c["rekorTlogUrls"] = c["rekorTlogUrls"].([]any)[3:] }, []string{"https://v1.test"}, ""},
		"version 3":    {func(c map[string]any) { c["rekorTlogUrls"] = c["rekorTlogUrls"].([]any)[4:] }, nil, "rekorTlogUrls: got 0"},
		"no stamps":    {func(c map[string]any) { delete(c, "tsaUrls") }, nil, "logs of version 2 state no time"},
		"no authority": {func(c map[string]any) { delete(c, "caUrls") }, nil, "caUrls: got 0"},
		"not yet": {func(c map[string]any) {
			c["caUrls"].([]any)[0].(map[string]any)["validFor"] = map[string]any{"start": "2099-01-01T00:00:00Z"}
		}, nil, "caUrls: got 0"},
		"no longer": {func(c map[string]any) {
			c["caUrls"].([]any)[0].(map[string]any)["validFor"] = map[string]any{"start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z"}
		}, nil, "caUrls: got 0"},
		"plain":          {url("http://ca.test"), nil, "http is for this machine alone"},
		"plain, here":    {url("http://127.0.0.1:5555"), []string{"https://new.test"}, ""},
		"password":       {url("https://me:secret@ca.test"), nil, "want https://HOST/PATH"},
		"no host":        {url("https:///x"), nil, "want https://HOST/PATH"},
		"another scheme": {url("file:///etc/passwd"), nil, "want https://HOST/PATH"},
		"longest":        {url(long(maxURL)), []string{"https://new.test"}, ""},
		"too long":       {url(long(maxURL + 1)), nil, "address of 2049 bytes"},
		"old form":       {func(c map[string]any) { c["mediaType"] = strings.Replace(servicesType, "0.2", "0.1", 1) }, nil, "media type"},
		"most services":  {func(c map[string]any) { c["caUrls"] = slices.Repeat(c["caUrls"].([]any), maxURLs) }, []string{"https://new.test"}, ""},
		"many services":  {func(c map[string]any) { c["caUrls"] = slices.Repeat(c["caUrls"].([]any), maxURLs+1) }, nil, "got 65, want at most 64"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ParseServices(config(c.edit), day)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range s.logs {
				got = append(got, l.url)
			}
			if !slices.Equal(got, c.logs) {
				t.Errorf("got %v, want %v", got, c.logs)
			}
		})
	}
	pad := func(n int) []byte { d := config(nil); return append(d, strings.Repeat(" ", n-len(d))...) }
	if _, err := ParseServices(pad(MaxServices), day); err != nil {
		t.Error(err)
	}
	if _, err := ParseServices(pad(MaxServices+1), day); err == nil {
		t.Error("a configuration over the limit was read")
	}
}

// The longest token is judged by its content.
func TestTokenLimit(t *testing.T) {
	claims := fmt.Sprintf(`{"aud":["a","sigstore"],"exp":%d,"pad":"`, day.Unix())
	fill := (MaxToken-4)*3/4 - len(claims) - 2
	payload := base64.RawURLEncoding.EncodeToString([]byte(claims + strings.Repeat("x", fill) + `"}`))
	token := "a." + payload + "." + strings.Repeat("s", MaxToken-len(payload)-3)
	if err := checkToken(token, day); err != nil || len(token) != MaxToken {
		t.Errorf("%d bytes: %v", len(token), err)
	}
	if err := checkToken(token, day.Add(time.Second)); err == nil {
		t.Error("a token was used after its end")
	}
}

// Malformed answers of Rekor v1.
func TestReadEntry(t *testing.T) {
	for name, text := range map[string]string{
		"two entries": `{"a":{"body":"e30="},"b":{"body":"e30="}}`, "none": `{}`, "body": `{"a":{"body":"eA=="}}`, "log id": `{"a":{"body":"e30=","logID":"xy"}}`,
		"root": `{"a":{"body":"e30=","verification":{"inclusionProof":{"rootHash":"x"}}}}`, "hash": `{"a":{"body":"e30=","verification":{"inclusionProof":{"hashes":["x"]}}}}`,
	} {
		if _, err := readEntry([]byte(text)); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

func FuzzParseServices(f *testing.F) {
	f.Add(config(nil))
	f.Add([]byte(`{"mediaType":"` + servicesType + `","caUrls":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseServices(data, day)
		if err != nil {
			return
		}
		for _, one := range append(append(s.logs, s.stampers...), service{s.authority, 1}) {
			if err := checkURL(one.url); err != nil || one.version == 0 || one.version > 2 {
				t.Errorf("%+v: %v", one, err)
			}
		}
	})
}

// FuzzAnswers holds that answers of services lead to values or errors.
func FuzzAnswers(f *testing.F) {
	w := sigstoretest.New(f, day)
	root, err := ParseRoot(w.Root())
	if err != nil {
		f.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"signedCertificateEmbeddedSct":{"chain":{"certificates":["-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]}}}`))
	f.Add([]byte(`{"a":{"body":"e30=","logID":"00","verification":{"inclusionProof":{"hashes":["00"]}}}}`))
	f.Add([]byte(`{"logId":{"keyId":"AA=="},"canonicalizedBody":"e30="}`))
	f.Add([]byte("a.eyJhdWQiOiJzaWdzdG9yZSJ9.b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &Signer{root: root, key: key}
		if s.certified(data) == nil {
			t.Error("a certificate that the root does not confirm was accepted")
		}
		if e, err := readEntry(data); err == nil && (e.GetLogId() == nil || e.GetInclusionProof() == nil) {
			t.Errorf("got %v", e)
		}
		_, _ = readEntry2(data)
		if err := checkToken(string(data), day); err == nil && bytes.Count(data, []byte(".")) != 2 {
			t.Error("a token of other parts was taken")
		}
	})
}
