package remote

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

// A helper that is missing or hangs is a warning, and config.json, in whatever
// encoding PowerShell wrote it, takes its place.
func TestHelpersFail(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: the helper is a shell script")
	}
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-hangs"), []byte("#!/bin/sh\nsleep 60 &\nsleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, helper := range []string{"missing", "hangs"} {
		text := fmt.Sprintf(`{"auths":{"registry.example":{"auth":%q}},"credsStore":%q}`, base64.StdEncoding.EncodeToString([]byte("me:secret")), helper)
		wide := []byte{0xff, 0xfe}
		for _, u := range utf16.Encode([]rune(text)) {
			wide = append(wide, byte(u), byte(u>>8))
		}
		for encoding, data := range map[string][]byte{"UTF-8": []byte(text), "BOM": []byte("\xef\xbb\xbf" + text), "UTF-16": wide} {
			if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			var warned []string
			l, err := newLogins(Options{HelperTime: 100 * time.Millisecond, Progress: func(e Event) {
				if e.Kind == Warned {
					warned = append(warned, e.Err.Error())
				}
			}})
			if err != nil {
				t.Fatal(encoding, err)
			}
			begin := time.Now()
			got, err := l.get(context.Background(), "registry.example")
			if err != nil || got.Username != "me" || got.Password != "secret" || time.Since(begin) > 10*time.Second {
				t.Errorf("%s, %s: %+v, %v after %s", helper, encoding, got, err, time.Since(begin))
			}
			if len(warned) != 1 || !strings.Contains(warned[0], "docker-credential-"+helper) || !strings.Contains(warned[0], "credsStore") {
				t.Errorf("%s: warned %q", helper, warned)
			}
		}
	}
}

// Docker Hub has one key, whatever name it is logged in to by.
func TestHubNames(t *testing.T) {
	for _, host := range []string{dockerIndex, dockerHost, dockerHub} {
		if got := hubName(host); got != dockerHub {
			t.Errorf("%s: got %s", host, got)
		}
	}
	if got := hubName("registry.example"); got != "registry.example" {
		t.Error(got)
	}
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	l := &logins{config: dockerConfig{Auths: map[string]dockerAuth{dockerKey: {Username: "me", Password: "x"}}}, found: nil}
	if got, err := l.look(context.Background(), dockerHost); err != nil || got.Username != "me" {
		t.Errorf("%+v, %v", got, err)
	}
}
