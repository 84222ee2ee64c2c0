package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// packageName is the name of the Debian and RPM packages; "mm" is too short to be
// unique there.
const packageName = "mm-abi"

// completions maps a shell to the path where packages install its completion.
var completions = map[string]string{
	"bash": "/usr/share/bash-completion/completions/mm",
	"fish": "/usr/share/fish/vendor_completions.d/mm.fish",
	"zsh":  "/usr/share/zsh/vendor-completions/_mm",
}

// content is a file of a package, in nfpm's terms.
type content struct {
	Source   string   `json:"src"`
	Path     string   `json:"dst"`
	FileInfo fileInfo `json:"file_info"`
}

type fileInfo struct {
	Mode  int    `json:"mode"`
	MTime string `json:"mtime"`
}

// linuxPackages writes a deb and an rpm of the programs in work, with manual
// pages, completions and notices, and returns their paths.
func (r *release) linuxPackages(ctx context.Context, arch, work string) ([]string, error) {
	extras, err := r.packageExtras(ctx)
	if err != nil {
		return nil, err
	}
	stamp := r.date.Format(time.RFC3339)
	var contents []content
	add := func(source, path string, mode int) {
		contents = append(contents, content{source, path, fileInfo{mode, stamp}})
	}
	for _, p := range programs {
		add(filepath.Join(work, p), "/usr/bin/"+p, 0o755)
	}
	for _, d := range append(slices.Clone(documents), extras.notices) {
		add(d, "/usr/share/doc/"+packageName+"/"+filepath.Base(d), 0o644)
	}
	if r.catalog != "" {
		add(r.catalog, "/usr/share/mm/"+filepath.Base(r.catalog), 0o644)
	}
	for _, page := range extras.man {
		add(page, "/usr/share/man/man1/"+filepath.Base(page), 0o644)
	}
	for shell, path := range completions {
		add(filepath.Join(extras.dir, "completion."+shell), path, 0o644)
	}
	slices.SortFunc(contents, func(a, b content) int { return strings.Compare(a.Path, b.Path) })
	config, err := json.Marshal(map[string]any{ // JSON is YAML
		"name": packageName, "arch": arch, "platform": "linux", "version": r.version, "mtime": stamp,
		"section": "science", "maintainer": "mm maintainers <maintainers@mm-abi.org>", "license": "Apache-2.0",
		"homepage":    "https://mm-abi.org",
		"description": "Compose, sign, ship and run modular multimodal models.",
		"contents":    contents,
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(work, "nfpm.yaml")
	if err := os.WriteFile(file, config, 0o644); err != nil {
		return nil, err
	}
	names := map[string]string{
		"deb": fmt.Sprintf("%s_%s_%s.deb", packageName, r.version, arch),
		"rpm": fmt.Sprintf("%s-%s-1.%s.rpm", packageName, r.version, map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]),
	}
	var written []string
	for _, kind := range []string{"deb", "rpm"} {
		target := filepath.Join(r.out, names[kind])
		cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=tools/faces/go.mod", "nfpm", "package", "-f", file, "-p", kind, "-t", target)
		cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()))
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("nfpm %s: %w\n%s", kind, err, out)
		}
		written = append(written, target)
	}
	return written, nil
}

// extras are the files of packages that the program itself writes.
type extras struct {
	dir     string
	man     []string
	notices string
}

// packageExtras runs mm of this machine for its manual pages and completions. The
// result is shared by all packages of the release.
func (r *release) packageExtras(ctx context.Context) (extras, error) {
	if r.extras.dir != "" {
		return r.extras, nil
	}
	e := extras{dir: filepath.Join(r.work, "extras")}
	if err := os.MkdirAll(e.dir, 0o755); err != nil {
		return e, err
	}
	run := func(args ...string) ([]byte, error) {
		out, err := exec.CommandContext(ctx, "go", append([]string{"run", "./cmd/mm"}, args...)...).Output()
		if err != nil {
			return nil, fmt.Errorf("mm %s: %w", strings.Join(args, " "), err)
		}
		return out, nil
	}
	if _, err := run("man", filepath.Join(e.dir, "man")); err != nil {
		return e, err
	}
	for shell := range completions {
		out, err := run("completion", shell)
		if err != nil {
			return e, err
		}
		if err := os.WriteFile(filepath.Join(e.dir, "completion."+shell), out, 0o644); err != nil {
			return e, err
		}
	}
	var err error
	if e.man, err = filepath.Glob(filepath.Join(e.dir, "man", "*.1")); err != nil {
		return e, err
	}
	e.notices = r.notices
	r.extras = e
	return e, nil
}

// formula writes a Homebrew formula for the archives whose checksums are given.
func (r *release) formula(sums map[string]string) error {
	var b strings.Builder
	fmt.Fprintf(&b, `class Mm < Formula
  desc "Compose, sign, ship and run modular multimodal models"
  homepage "https://mm-abi.org"
  version "%s"
  license "Apache-2.0"

`, r.version)
	for _, system := range []struct{ block, name string }{{"on_macos", "darwin"}, {"on_linux", "linux"}} {
		fmt.Fprintf(&b, "  %s do\n", system.block)
		for _, arch := range []struct{ block, name string }{{"on_arm", "arm64"}, {"on_intel", "amd64"}} {
			file := fmt.Sprintf("mm-%s-%s-%s.tar.gz", r.version, system.name, arch.name)
			sum, ok := sums[file]
			if !ok {
				continue
			}
			fmt.Fprintf(&b, "    %s do\n      url \"%s/v%s/%s\"\n      sha256 \"%s\"\n    end\n", arch.block, r.url, r.version, file, sum)
		}
		b.WriteString("  end\n")
	}
	b.WriteString(`
  def install
    bin.install "mm", "mm-native", "mm-queue"
    generate_completions_from_executable(bin/"mm", "completion")
    doc.install "README.md", "CHANGELOG.md", "THIRD_PARTY_NOTICES.txt"
    (share/"mm").install "mm-catalog.zip"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/mm --version")
  end
end
`)
	return os.WriteFile(filepath.Join(r.out, "mm.rb"), []byte(b.String()), 0o644)
}
