package httpx

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// Proxy returns the proxy that the environment names for a request. An invalid address is
// an error: net/http would ignore it and connect without the proxy.
func Proxy(req *http.Request) (*url.URL, error) {
	name := strings.ToUpper(req.URL.Scheme) + "_PROXY"
	for _, name := range []string{name, strings.ToLower(name)} {
		if address := os.Getenv(name); address != "" && !IsLoopback(req.URL.Host) && !validProxy(address) {
			return nil, fmt.Errorf("%s: invalid address of a proxy, want http://USER:PASSWORD@HOST:PORT with %%25 for %% and %%40 for @ in the password", name)
		}
	}
	return http.ProxyFromEnvironment(req)
}

func validProxy(address string) bool {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	return err == nil && u.Host != ""
}

// Transport returns a transport with the settings of [http.DefaultTransport] and [Proxy].
func Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = Proxy
	return t
}
