package remote_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/registry/remote"
)

// A login is kept only when the registry took it, and only where the user
// agreed to keep it readable; the next client finds it.
func TestLogin(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, pass, ok := r.BasicAuth(); !ok || user != "me" || pass != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path != "/v2/" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	client, err := remote.New(remote.Options{Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, file := context.Background(), filepath.Join(dir, "config.json")
	login := remote.LoginOptions{Host: host, User: "me", Password: "wrong", Plaintext: true}
	if err := client.Login(ctx, login); err == nil {
		t.Error("a wrong password was taken")
	}
	login.Password, login.Plaintext = "secret", false
	if err := client.Login(ctx, login); !errors.Is(err, remote.ErrPlaintext) {
		t.Errorf("without a helper: %v", err)
	}
	if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), host) {
		t.Errorf("a login was kept: %s", data)
	}
	login.Plaintext = true
	if err := client.Login(ctx, login); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), host) {
		t.Fatalf("config.json: %s, %v", data, err)
	}
	if err := remote.Logout(ctx, host); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(file); strings.Contains(string(data), host) {
		t.Errorf("still there: %s", data)
	}
	if err := client.Login(ctx, remote.LoginOptions{Host: "a b", Password: "x"}); err == nil {
		t.Error("an impossible host was taken")
	}
}
