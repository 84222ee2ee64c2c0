package remote

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The challenge that the client can meet is found among others, in any order and form.
func TestChallenge(t *testing.T) {
	const bearer = `Bearer realm="https://auth.example/token",service="s"`
	for _, c := range []struct {
		offered []string
		want    string
	}{
		{[]string{bearer}, bearer},
		{[]string{"Negotiate", bearer}, bearer},
		{[]string{"Negotiate YII=, " + bearer}, bearer},
		{[]string{"Negotiate YII/a+b==", `NTLM`, bearer}, bearer},
		{[]string{`Basic realm="x"`, bearer}, bearer},
		{[]string{`Basic realm="x, Bearer realm=y", ` + bearer}, bearer},
		{[]string{bearer, `Basic realm="x"`}, bearer},
		{[]string{bearer + `,scope="repository:p:pull,push"`}, bearer + `,scope="repository:p:pull,push"`},
		{[]string{`bearer  Realm = "https://auth.example/token" , service = "s",error="invalid_token"`}, bearer},
		{[]string{`Bearer realm=https://auth.example/token,service=s`}, bearer},
		{[]string{`Bearer realm="https:\/\/auth.example/token",service="s`}, bearer},
		{[]string{`Bearer realm="https://a/\"\é",service="s\`}, `Bearer realm="https://a/\"é",service="s"`},
		{[]string{`Bearer service="s"`, `basic`}, "Basic"},
		{[]string{`Bearer realm="", Basic realm="x"`}, "Basic"},
		{[]string{`Digest realm="x",nonce="y"`}, ""},
		{[]string{`realm="x"`, ",,", "", "="}, ""},
	} {
		if got := chooseChallenge(c.offered); got != c.want {
			t.Errorf("%q: got %q, want %q", c.offered, got, c.want)
		}
	}
}

// A registry that offers two challenges is asked for a token, without a login.
func TestChallenges(t *testing.T) {
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			w.Write([]byte(`{"access_token":"T"}`))
		case r.Header.Get("Authorization") != "Bearer T":
			w.Header()["Www-Authenticate"] = []string{"Negotiate", `Basic realm="x", Bearer realm=` + srv.URL + `/token,service=s`}
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.Write([]byte(`{"name":"p","tags":["0.1.0"]}`))
		}
	}))
	t.Cleanup(srv.Close)
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	client, err := New(Options{Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	if tags, err := client.Tags(t.Context(), strings.TrimPrefix(srv.URL, "http://")+"/p"); err != nil || len(tags) != 1 {
		t.Errorf("got tags %v, %v", tags, err)
	}
}
