package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// noticesFile is what package notices embeds.
const noticesFile = "internal/notices/notices.txt.gz"

// legal matches the names of files that a license asks to be passed on.
var legal = regexp.MustCompile(`(?i)^((un)?licen[cs]e|copying|copyright|notice|patents)([._-].*)?$`)

// maxLegal bounds one license file in bytes.
const maxLegal = 256 << 10

// linked is a module that a program links, and its folder.
type linked struct{ Path, Version, Dir string }

// noticesText returns the licenses and notices of Go and of every module that
// the programs link on any platform, sorted by module.
func noticesText(ctx context.Context) (string, error) {
	modules := map[string]linked{}
	for _, platform := range platforms {
		if err := linkedModules(ctx, platform, modules); err != nil {
			return "", err
		}
	}
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	all := []linked{{Path: "Go", Version: "standard library and runtime", Dir: strings.TrimSpace(string(goroot))}}
	for _, m := range modules {
		all = append(all, m)
	}
	slices.SortFunc(all[1:], func(a, b linked) int { return strings.Compare(a.Path, b.Path) })
	var b strings.Builder
	b.WriteString("mm, mm-native and mm-queue link the modules below. Their licenses and notices follow.\n")
	for _, m := range all {
		texts, err := legalTexts(m.Dir)
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.Path, err)
		}
		fmt.Fprintf(&b, "\n%s\n%s %s\n%s\n", strings.Repeat("=", 80), m.Path, m.Version, strings.Repeat("=", 80))
		for _, text := range texts {
			fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")))
		}
	}
	return b.String(), nil
}

// linkedModules adds the modules that the programs link on a platform.
func linkedModules(ctx context.Context, platform string, into map[string]linked) error {
	system, arch, _ := strings.Cut(platform, "/")
	args := []string{"list", "-deps", "-f", `{{with .Module}}{{if not .Main}}{"Path":"{{.Path}}","Version":"{{.Version}}","Dir":"{{.Dir}}"}{{end}}{{end}}`}
	for _, p := range programs {
		args = append(args, "./cmd/"+p)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list for %s: %w", platform, err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var m linked
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		into[m.Path] = m
	}
}

// legalTexts returns the license files at the root of a module. A module without
// one is an error.
func legalTexts(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, e := range entries {
		if !e.Type().IsRegular() || !legal.MatchString(e.Name()) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		if info.Size() > maxLegal {
			return nil, fmt.Errorf("%s has %d bytes, want at most %d", e.Name(), info.Size(), maxLegal)
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(data))
	}
	if len(texts) == 0 {
		return nil, errors.New("no license file")
	}
	return texts, nil
}

// writeNotices writes the file that package notices embeds.
func writeNotices(ctx context.Context, file string) error {
	text, err := noticesText(ctx)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(z, text); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}
