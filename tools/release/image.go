package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"mm-abi.org/mm/registry"
)

// imageFile is a file of the container image.
type imageFile struct {
	path string
	mode int64
	data []byte
}

// image writes a container image for linux/amd64 and linux/arm64 as an archive of
// an OCI layout, and returns its path. The image holds the programs, documents,
// notices and Mozilla's root certificates; its user is 65532 and its store is
// /data.
func (r *release) image(ctx context.Context) (string, error) {
	layout := filepath.Join(r.work, "image")
	store, err := registry.Open(layout, registry.Options{})
	if err != nil {
		return "", err
	}
	defer store.Close()
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	for _, arch := range []string{"amd64", "arm64"} {
		files, err := r.imageFiles(filepath.Join(r.work, "linux-"+arch))
		if err != nil {
			return "", err
		}
		desc, err := r.imageManifest(ctx, store, arch, files)
		if err != nil {
			return "", err
		}
		index.Manifests = append(index.Manifests, desc)
	}
	desc, err := addJSON(ctx, store, ocispec.MediaTypeImageIndex, index)
	if err != nil {
		return "", err
	}
	if err := store.Tag(ctx, desc, "mm:"+r.version); err != nil {
		return "", err
	}
	if err := store.Close(); err != nil {
		return "", err
	}
	file := filepath.Join(r.out, fmt.Sprintf("mm-%s-image.tar", r.version))
	return file, create(file, func(w io.Writer) error { return r.layoutArchive(w, layout) })
}

// imageFiles returns the files of the image, sorted by path.
func (r *release) imageFiles(programsDir string) ([]imageFile, error) {
	var certs bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&certs, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	files := []imageFile{
		{"data/", 0o777, nil},
		{"tmp/", 0o1777, nil},
		{"etc/passwd", 0o644, []byte("mm:x:65532:65532:mm:/data:/sbin/nologin\n")},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, certs.Bytes()},
	}
	add := func(source, path string, mode int64) error {
		data, err := os.ReadFile(source)
		files = append(files, imageFile{path, mode, data})
		return err
	}
	for _, p := range programs {
		if err := add(filepath.Join(programsDir, p), "usr/bin/"+p, 0o755); err != nil {
			return nil, err
		}
	}
	for _, d := range append(slices.Clone(documents), r.notices) {
		if err := add(d, "usr/share/doc/mm/"+filepath.Base(d), 0o644); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(files, func(a, b imageFile) int { return strings.Compare(a.path, b.path) })
	return files, nil
}

// imageManifest adds layer, config and manifest of one platform.
func (r *release) imageManifest(ctx context.Context, store *registry.Store, arch string, files []imageFile) (ocispec.Descriptor, error) {
	layer, diffID, err := r.layer(files)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	layerDesc, err := store.AddBytes(ctx, ocispec.MediaTypeImageLayerGzip, layer)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	config := ocispec.Image{
		Created:  &r.date,
		Platform: ocispec.Platform{OS: "linux", Architecture: arch},
		Config: ocispec.ImageConfig{
			User: "65532:65532", Entrypoint: []string{"/usr/bin/mm"}, WorkingDir: "/data",
			Env: []string{"PATH=/usr/bin", "MM_HOME=/data/mm"},
			Labels: map[string]string{
				ocispec.AnnotationTitle: "mm", ocispec.AnnotationVersion: r.version, ocispec.AnnotationLicenses: "Apache-2.0",
				ocispec.AnnotationURL: "https://mm-abi.org", ocispec.AnnotationDescription: "Compose, sign, ship and run modular multimodal models.",
			},
		},
		RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{diffID}},
	}
	configDesc, err := addJSON(ctx, store, ocispec.MediaTypeImageConfig, config)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc, err := addJSON(ctx, store, ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: configDesc, Layers: []ocispec.Descriptor{layerDesc}, Annotations: config.Config.Labels,
	})
	desc.Platform = &config.Platform
	return desc, err
}

// layer returns a gzipped tar of the files, and the digest of the tar.
func (r *release) layer(files []imageFile) ([]byte, digest.Digest, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, "", err
	}
	h := sha256.New()
	t := tar.NewWriter(io.MultiWriter(z, h))
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Size: int64(len(f.data)), Mode: f.mode, ModTime: r.date, Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.path, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(header); err != nil {
			return nil, "", err
		}
		if _, err := t.Write(f.data); err != nil {
			return nil, "", err
		}
	}
	if err := t.Close(); err != nil {
		return nil, "", err
	}
	if err := z.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), digest.NewDigest(digest.SHA256, h), nil
}

// layoutArchive writes the OCI layout in dir as a tar: oci-layout, index.json and
// blobs, sorted.
func (r *release) layoutArchive(w io.Writer, dir string) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		switch {
		case e.IsDir() && strings.HasPrefix(e.Name(), ".") && rel != ".":
			return fs.SkipDir
		case e.IsDir() || name != "oci-layout" && name != "index.json" && !strings.HasPrefix(name, "blobs/"):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644, ModTime: r.date, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		_, err = t.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return t.Close()
}

func addJSON(ctx context.Context, store *registry.Store, mediaType string, v any) (ocispec.Descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	return store.AddBytes(ctx, mediaType, data)
}
