package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/registry"
)

// home is the user's folder of mm: the store, the keys and the trust file.
// MM_HOME names it; otherwise it is the system's place for a program's data.
func home() (string, error) {
	if dir := os.Getenv("MM_HOME"); dir != "" {
		return filepath.Abs(dir)
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the home folder: %w (set MM_HOME)", err)
	}
	switch runtime.GOOS {
	case "windows":
		if dir := os.Getenv("LOCALAPPDATA"); dir != "" {
			return filepath.Join(dir, "mm"), nil
		}
		return filepath.Join(user, "AppData", "Local", "mm"), nil
	case "darwin":
		return filepath.Join(user, "Library", "Application Support", "mm"), nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "mm"), nil
	}
	return filepath.Join(user, ".local", "share", "mm"), nil
}

// Folders and files of the home.
const (
	storeDir  = "store"
	cacheDir  = "cache"
	keysDir   = "keys"
	auditFile = "audit.jsonl"
)

// openStore opens the user's store, creating it at first use.
func openStore() (*registry.Store, error) {
	dir, err := home()
	if err != nil {
		return nil, err
	}
	return registry.Open(filepath.Join(dir, storeDir), registry.Options{})
}

// layoutFlag lets a store command work on another OCI layout.
func layoutFlag() cli.Flag {
	return &cli.StringFlag{Name: "layout", Usage: "work on the OCI layout at `DIR` instead of the store"}
}

// openLayout opens what layoutFlag names, which must exist, or the store.
func openLayout(c *cli.Context) (*registry.Store, error) {
	if dir := c.String("layout"); dir != "" {
		return registry.Open(dir, registry.Options{MustExist: true})
	}
	return openStore()
}

// isLayout reports whether dir is an OCI layout.
func isLayout(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "oci-layout"))
	return err == nil && info.Mode().IsRegular()
}

// exists reports whether path is there, for better messages only.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// sourceDate is SOURCE_DATE_EPOCH, or nil: mm writes no time by itself.
func sourceDate() (*time.Time, error) {
	s := os.Getenv("SOURCE_DATE_EPOCH")
	if s == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading SOURCE_DATE_EPOCH: %w", err)
	}
	t := time.Unix(n, 0).UTC()
	return &t, nil
}
