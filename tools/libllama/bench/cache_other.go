//go:build !linux

package main

import "errors"

// dropCache is only implemented on Linux.
func dropCache(string) error {
	return errors.New("the page cache can only be dropped on Linux")
}
