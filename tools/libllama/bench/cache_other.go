//go:build !linux

package main

import "errors"

// dropCache is known for Linux only.
func dropCache(string) error {
	return errors.New("the page cache can be dropped on Linux only")
}
