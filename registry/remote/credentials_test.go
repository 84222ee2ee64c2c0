package remote

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// guarded requires a login.
func guarded(user, password string) http.Handler {
	inner := inMemory(true)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// TestDockerCredentials uses the logins of docker login, from its file and
// from a helper, each for its own host.
func TestDockerCredentials(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: the helper is a shell script")
	}
	dir := t.TempDir()
	filed, helped := serve(t, guarded("anna", "one")), serve(t, guarded("bert", "two"))
	config := fmt.Sprintf(`{"auths":{%q:{"auth":%q}},"credHelpers":{%q:"mmtest"}}`,
		filed, base64.StdEncoding.EncodeToString([]byte("anna:one")), helped)
	helper := "#!/bin/sh\nread host\n[ \"$1 $host\" = \"get " + helped + "\" ] || exit 1\n" +
		`echo '{"ServerURL":"x","Username":"bert","Secret":"two"}'` + "\n"
	for name, text := range map[string]string{"config.json": config, "docker-credential-mmtest": helper} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("DOCKER_CONFIG", dir)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	src := openStore(t)
	desc := pack(t, src, "x", layer(t, src, "x.onnx", "encoder", noise(1, 1000)))
	for _, host := range []string{filed, helped} {
		if _, err := c.Push(ctx, src, desc, host+"/x:1", PushOptions{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Push(ctx, src, desc, serve(t, guarded("carl", "three"))+"/x:1", PushOptions{}); err == nil {
		t.Error("a host without a login was pushed to")
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a broken config.json was taken")
	}
}
