package workspace

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace/trust"
)

// maxFolderFiles bounds the files of a signed folder.
const maxFolderFiles = 10_000

// FolderSigner is who signs a folder: a key, with certificates or without.
type FolderSigner struct {
	Key   *sign.PrivateKey
	Chain []*x509.Certificate // of the key, its own first
	Now   time.Time           // at which they are valid
}

// write signs a folder and writes the signature to file.
func (s FolderSigner) write(f sign.Folder, file string) (sign.Folder, error) {
	f.KeyID, f.Chain = s.Key.Public().KeyID(), s.Chain
	data, err := sign.SignFolder(s.Key, f, s.Now)
	if err != nil {
		return sign.Folder{}, err
	}
	return f, fsx.WriteFile(file, data, 0o644)
}

// Certificates reads the certificates of a PEM file; none if file is empty.
func Certificates(file string) ([]*x509.Certificate, error) {
	if file == "" {
		return nil, nil
	}
	return trust.ReadCertificates(file)
}

// CertifiedBy accepts the certificates below the roots of a PEM file that state an identity;
// "": any.
func CertifiedBy(file, identity string, now time.Time) (sign.FolderTrust, error) {
	a := sign.FolderAuthority{}
	if identity != "" {
		a.Identities = []string{identity}
	}
	var err error
	a.Roots, err = Certificates(file)
	return sign.FolderTrust{Authorities: []sign.FolderAuthority{a}, Now: now}, err
}

// SignFolder signs the files of a folder in the form of OpenSSF Model Signing and writes
// the signature to file, which is left out of it.
func SignFolder(ctx context.Context, dir, file string, by FolderSigner) (sign.Folder, error) {
	ignored := ignoredNames(dir, file)
	files, err := folderFiles(ctx, dir, ignored)
	if err != nil {
		return sign.Folder{}, err
	}
	name, err := filepath.Abs(dir)
	if err != nil {
		return sign.Folder{}, err
	}
	return by.write(sign.Folder{Name: filepath.Base(name), Files: files, Ignored: ignored}, file)
}

// SignFiles signs the files of an artifact, of an index those of one target, as [SignFolder]
// signs a folder of them, and writes the signature to file. The digests are those of the
// manifest: no file is read.
func (w *Workspace) SignFiles(ctx context.Context, at *Located, target, file string, by FolderSigner) (sign.Folder, error) {
	p, err := w.part(ctx, at, target)
	if err != nil {
		return sign.Folder{}, err
	}
	f := sign.Folder{Name: p.Artifact.Name, Ignored: sign.FolderIgnored()}
	for _, l := range p.Artifact.Layers {
		if l.Packing != "" {
			return sign.Folder{}, fmt.Errorf("%s: %s is an archive, whose files have no digests in the manifest: pull it and sign the folder", at.ref, l.Path)
		}
		f.Files = append(f.Files, sign.FolderFile{Name: l.Path, Digest: l.Descriptor.Digest.Encoded()})
	}
	return by.write(f, file)
}

// VerifyFolder verifies the signature in file over the files of a folder: the folder holds
// exactly the signed files, unchanged.
func VerifyFolder(ctx context.Context, dir, file string, accepted sign.FolderTrust) (sign.Folder, error) {
	data, err := fsx.ReadFile(file, sign.MaxFolderBundle)
	if err != nil {
		return sign.Folder{}, err
	}
	f, err := sign.OpenFolder(data, accepted)
	if err != nil {
		return f, fmt.Errorf("%s: %w", file, err)
	}
	own := ignoredNames(dir, file)
	for _, name := range f.Ignored {
		if !slices.Contains(own, name) {
			return f, fmt.Errorf("%s: the signature ignores %q, which may hold anything", file, name)
		}
	}
	files, err := folderFiles(ctx, dir, own)
	if err != nil {
		return f, err
	}
	return f, differences(dir, files, f.Files)
}

// differences reports every difference of a folder from the signed files.
func differences(dir string, got, want []sign.FolderFile) error {
	signed := map[string]string{}
	for _, f := range want {
		signed[f.Name] = f.Digest
	}
	var faults []error
	for _, f := range got {
		switch digest, ok := signed[f.Name]; {
		case !ok:
			faults = append(faults, fmt.Errorf("%s: not signed", filepath.Join(dir, f.Name)))
		case digest != f.Digest:
			faults = append(faults, fmt.Errorf("%s: sha256: got %s, want %s", filepath.Join(dir, f.Name), f.Digest, digest))
		}
		delete(signed, f.Name)
	}
	for _, f := range want {
		if _, missing := signed[f.Name]; missing {
			faults = append(faults, fmt.Errorf("%s: signed but missing", filepath.Join(dir, f.Name)))
		}
	}
	return errors.Join(faults...)
}

// ignoredNames lists the names that a signature in file over dir leaves out.
func ignoredNames(dir, file string) []string {
	names := sign.FolderIgnored()
	if name, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(name) {
		names = append(names, filepath.ToSlash(name))
	}
	return names
}

// folderFiles hashes the files of a folder without the ignored names. A symbolic link or
// another irregular file is an error.
func folderFiles(ctx context.Context, dir string, ignored []string) ([]sign.FolderFile, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var files []sign.FolderFile
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case err != nil:
			return err
		case slices.Contains(ignored, name) && d.IsDir():
			return fs.SkipDir
		case slices.Contains(ignored, name) || d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s: %w: only regular files are signed", filepath.Join(dir, name), fsx.ErrIrregular)
		case len(files) == maxFolderFiles:
			return fmt.Errorf("%s: more than %d files", dir, maxFolderFiles)
		}
		digest, err := folderFileDigest(ctx, root, name)
		files = append(files, sign.FolderFile{Name: name, Digest: digest})
		return err
	})
	return files, err
}

// folderFileDigest hashes one file below root.
func folderFileDigest(ctx context.Context, root *os.Root, name string) (string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, digest, err := fsx.DigestOf(fsx.Reader{Context: ctx, R: f})
	return strings.TrimPrefix(digest, "sha256:"), err
}
