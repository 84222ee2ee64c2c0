package remote

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oras.land/oras-go/v2/errdef"
)

// Each limit of cookies, logins and waits accepts its value and refuses one more.
func TestSmallLimits(t *testing.T) {
	at, _ := url.Parse("https://registry.example/v2/")
	for more := range 2 {
		jar := newCookies()
		var set []*http.Cookie
		for i := range maxCookies + more {
			set = append(set, &http.Cookie{Name: "c" + strings.Repeat("x", i), Value: "1"})
		}
		if jar.SetCookies(at, set); len(jar.Cookies(at)) != maxCookies {
			t.Errorf("maxCookies+%d: %d cookies", more, len(jar.Cookies(at)))
		}
		jar = newCookies()
		jar.SetCookies(at, []*http.Cookie{{Name: "c", Value: strings.Repeat("x", maxCookie-1+more)}})
		if got := len(jar.Cookies(at)) == 1; got != (more == 0) {
			t.Errorf("maxCookie+%d: %v", more, got)
		}
		jar = newCookies()
		for i := range maxCookieHosts - 1 + more {
			jar.SetCookies(&url.URL{Scheme: "https", Host: strings.Repeat("h", i+1)}, set[:1])
		}
		if jar.SetCookies(at, set[:1]); (len(jar.Cookies(at)) == 1) != (more == 0) {
			t.Errorf("maxCookieHosts+%d", more)
		}
		file := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(file, []byte("{}"+strings.Repeat(" ", maxConfig-2+more)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readConfig(file); (err == nil) != (more == 0) {
			t.Errorf("maxConfig+%d: %v", more, err)
		}
		r := newClient(t, Options{}).repository(Reference{})
		if got := r.patient(context.Background(), maxLateTries-1+more, errdef.ErrNotFound); got != (more == 0) {
			t.Errorf("maxLateTries+%d: %v", more, got)
		}
		r.waits.Store(int64(maxLateWaits - 1 + more))
		if got := r.patient(context.Background(), 0, errdef.ErrNotFound); got != (more == 0) {
			t.Errorf("maxLateWaits+%d: %v", more, got)
		}
	}
}
