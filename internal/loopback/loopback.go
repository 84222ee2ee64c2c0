// Package loopback recognizes this machine in addresses: servers demand keys beyond it,
// and clients send secrets over plain connections only to it.
package loopback

import (
	"net"
	"strings"
)

// Is reports whether a host, with a port or without, is this machine by name or address.
// An address to listen on that names no host is not.
func Is(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}
