//go:build !linux

package registry

import "errors"

func mountTmpfs(string, int) error { return errors.ErrUnsupported }

func unmount(string) {}
