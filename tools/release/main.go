// Command release builds a release: for each platform an archive of the
// programs, documents, third-party notices and reference modules; a Python wheel
// of the client and the programs; deb and rpm packages and a container image for
// Linux; a Homebrew formula; and SHA256SUMS.
//
//	go run ./tools/release -version 1.2.0 -out dist
//
// The same source and the same Go give the same bytes on every machine: paths
// are trimmed, no build records the state of a checkout, and every entry has one
// owner, one mode and the date of SOURCE_DATE_EPOCH (default: 1980-01-01, the
// earliest date of the zip format).
package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/eval/demo"
)

// platforms lists the platforms of a release.
var platforms = []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64", "windows/arm64"}

// programs are mm, which is static, the child process that loads native engines, and the
// server of jobs.
var programs = []string{"mm", "mm-native", "mm-queue"}

// documents are in each archive and package.
var documents = []string{"LICENSE", "README.md", "CHANGELOG.md"}

func main() {
	var r release
	only := flag.String("platforms", strings.Join(platforms, ","), "OS/ARCH, separated by commas")
	flag.StringVar(&r.version, "version", "", "the release, MAJOR.MINOR.PATCH")
	flag.StringVar(&r.out, "out", "dist/release", "folder for the archives")
	flag.StringVar(&r.url, "url", "https://mm-abi.org/releases", "address below which archives are published, for the formula")
	notices := flag.Bool("notices", false, "write the third-party notices that mm embeds, and nothing else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *notices {
		if err := writeNotices(ctx, noticesFile); err != nil {
			fmt.Fprintln(os.Stderr, "release:", err)
			os.Exit(1)
		}
		return
	}
	if err := r.run(ctx, strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

type release struct {
	version, out, url string
	date              time.Time

	work    string // temporary folder
	notices string // THIRD_PARTY_NOTICES.txt in it
	catalog string // mm-catalog.zip in it
	extras  extras
}

func (r *release) run(ctx context.Context, platforms []string) error {
	if _, err := abi.ParseVersion(r.version); err != nil {
		return fmt.Errorf("-version: %w", err)
	}
	r.date = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	if s := os.Getenv("SOURCE_DATE_EPOCH"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < r.date.Unix() {
			return fmt.Errorf("SOURCE_DATE_EPOCH is %q, not a time since 1980 in seconds", s)
		}
		r.date = time.Unix(n, 0).UTC()
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	var err error
	if r.work, err = os.MkdirTemp("", "mm-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := r.prepare(ctx); err != nil {
		return err
	}
	var files []string
	for _, p := range slices.Sorted(slices.Values(platforms)) {
		written, err := r.platform(ctx, p)
		if err != nil {
			return fmt.Errorf("building for %s: %w", p, err)
		}
		files = append(files, written...)
	}
	if slices.Contains(platforms, "linux/amd64") && slices.Contains(platforms, "linux/arm64") {
		image, err := r.image(ctx)
		if err != nil {
			return fmt.Errorf("building the image: %w", err)
		}
		files = append(files, image)
	}
	return r.finish(files)
}

// prepare writes the files that every archive holds.
func (r *release) prepare(ctx context.Context) error {
	text, err := noticesText(ctx)
	if err != nil {
		return err
	}
	r.notices = filepath.Join(r.work, "THIRD_PARTY_NOTICES.txt")
	if err := os.WriteFile(r.notices, []byte(text), 0o644); err != nil {
		return err
	}
	r.catalog = filepath.Join(r.work, demo.ArchiveName)
	return create(r.catalog, r.catalogArchive)
}

// catalogArchive writes the reference modules and graphs that git tracks.
func (r *release) catalogArchive(w io.Writer) error {
	out, err := exec.Command("git", "ls-files", "catalog", "builds/*.yaml").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	z := zip.NewWriter(w)
	for _, name := range strings.Fields(string(out)) {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		e, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: r.date})
		if err != nil {
			return err
		}
		if _, err := e.Write(data); err != nil {
			return err
		}
	}
	return z.Close()
}

// finish writes the formula and SHA256SUMS.
func (r *release) finish(files []string) error {
	sums := map[string]string{}
	for _, file := range files {
		sum, err := hash(file)
		if err != nil {
			return err
		}
		sums[filepath.Base(file)] = fmt.Sprintf("%x", sum)
	}
	if err := r.formula(sums); err != nil {
		return err
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&b, "%s  %s\n", sums[name], name)
	}
	fmt.Print(b.String())
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()), 0o644)
}

// platform builds the files of one platform and returns their paths.
func (r *release) platform(ctx context.Context, platform string) ([]string, error) {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, fmt.Errorf("%q is not OS/ARCH", platform)
	}
	work := filepath.Join(r.work, system+"-"+arch)
	var files []string
	for _, name := range programs {
		program := filepath.Join(work, name)
		if system == "windows" {
			program += ".exe"
		}
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "urfave_cli_no_docs", "-ldflags", "-s -w -buildid= -X main.version="+r.version, "-o", program, "./cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return nil, err
		}
		files = append(files, program)
	}
	files = append(files, documents...)
	files = append(files, r.notices, r.catalog)
	stem := fmt.Sprintf("mm-%s-%s-%s", r.version, system, arch)
	write, file := r.tarball, filepath.Join(r.out, stem+".tar.gz")
	if system == "windows" {
		write, file = r.zip, filepath.Join(r.out, stem+".zip")
	}
	if err := create(file, func(w io.Writer) error { return write(w, stem, files) }); err != nil {
		return nil, err
	}
	wheel, err := r.wheel(platform, files)
	if err != nil {
		return nil, err
	}
	written := []string{file, wheel}
	if system == "linux" {
		packages, err := r.linuxPackages(ctx, arch, work)
		if err != nil {
			return nil, err
		}
		written = append(written, packages...)
	}
	return written, nil
}

// create writes a file under a temporary name and renames it.
func create(file string, write func(io.Writer) error) error {
	f, err := os.Create(file + ".part")
	if err != nil {
		return err
	}
	err = cmp.Or(write(f), f.Sync(), f.Close())
	if err != nil {
		f.Close()
		os.Remove(f.Name())
		return err
	}
	return os.Rename(f.Name(), file)
}

func (r *release) tarball(w io.Writer, stem string, files []string) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: stem + "/" + filepath.Base(file), Size: int64(len(data)), Mode: mode(i), ModTime: r.date, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return cmp.Or(t.Close(), z.Close())
}

func (r *release) zip(w io.Writer, stem string, files []string) error {
	z := zip.NewWriter(w)
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: stem + "/" + filepath.Base(file), Method: zip.Deflate, Modified: r.date}
		h.SetMode(os.FileMode(mode(i)))
		e, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := e.Write(data); err != nil {
			return err
		}
	}
	return z.Close()
}

// mode is that of the i-th file of an archive; the programs come first.
func mode(i int) int64 {
	if i < len(programs) {
		return 0o755
	}
	return 0o644
}

func hash(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
}
