package httpx_test

import (
	"testing"

	"mm-abi.org/mm/internal/httpx"
)

func TestIsLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"localhost": true, "localhost:5000": true, "LOCALHOST:1": true, "127.0.0.1": true, "127.1.2.3:80": true, "[::1]:5000": true, "[::1]": true, "::1": true,
		"127.0.0.1:0": true, "localhost.example": false, "10.0.0.1": false, "10.0.0.1:1": false, "127.0.0.1.example:80": false, "registry.example": false,
		"0.0.0.0:1": false, "[::]:1": false, ":1": false, "192.0.2.1:1": false, "x": false, "": false,
	} {
		if got := httpx.IsLoopback(address); got != want {
			t.Errorf("%q: got %v, want %v", address, got, want)
		}
	}
}
