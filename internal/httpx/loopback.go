// Package httpx holds what clients and servers of HTTP share: which addresses are this
// machine, and how long a server asks to wait.
package httpx

import (
	"net"
	"strings"
)

// IsLoopback reports whether a host, with a port or without, is this machine by name or
// address: servers demand keys beyond it, and clients send secrets over plain connections
// only to it. An address to listen on that names no host is not.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}
