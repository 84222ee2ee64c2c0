package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

// evidenceName is what a trust file calls records of devices.
const evidenceName = "device/evidence"

// vouching are the keys that may vouch for records of devices.
func vouching(w *workspace.Workspace, files []string) ([]evidence.Verifier, error) {
	keys, err := w.Vouching(evidenceName, files, time.Now())
	var out []evidence.Verifier
	for _, k := range keys {
		out = append(out, k)
	}
	return out, err
}

// evidenceKey is the private key that records are signed with; nil where none is
// asked for.
func (p *program) evidenceKey(w *workspace.Workspace, file string) (*sign.PrivateKey, error) {
	if file == "" {
		return nil, nil
	}
	s, err := w.Signer(file, p.password)
	if err != nil {
		return nil, err
	}
	return s.Key, nil
}

// readRecord reads a record; one that was changed is a diagnostic.
func readRecord(path string) (evidence.Record, error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return evidence.Record{}, err
	}
	defer f.Close()
	r, err := evidence.Read(f)
	return r, recordFault(path, err)
}

// recordFault makes a diagnostic of why a record is not believed.
func recordFault(path string, err error) error {
	var l diag.List
	for _, c := range []struct {
		why  error
		code diag.Code
	}{
		{evidence.ErrChanged, diag.EvidenceChanged}, {evidence.ErrUnsigned, diag.EvidenceUnsigned}, {evidence.ErrStranger, diag.EvidenceStranger}, {evidence.ErrForged, diag.EvidenceForged},
	} {
		if errors.Is(err, c.why) {
			l.Add(c.code, diag.Pos{File: path}, err.Error(), c.code.Fix())
			return l.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// recordSigned is what mm device sign and verify print.
type recordSigned struct {
	File   string `json:"file"`
	Digest string `json:"digest"`
	Key    string `json:"key"`
}

func (p *program) deviceSign(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	path := c.Args().First()
	r, err := readRecord(path)
	if err != nil {
		return err
	}
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		s, err := w.Signer(c.String("key"), p.password)
		if err != nil {
			return err
		}
		if err := r.Sign(s.Key, s.Key.Public().KeyID()); err != nil {
			return err
		}
		err = fsx.Replace(path, 0o644, func(f io.Writer) error { return writeRecord(f, r) })
		w.Record(c.Context, audit.Entry{Action: "device sign", Ref: path, Digest: r.Digest, Result: workspace.Outcome(err)})
		if err != nil {
			return err
		}
		return p.printSigned("signed", recordSigned{path, r.Digest, r.Signature.Key})
	})
}

func (p *program) deviceVerify(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	path := c.Args().First()
	r, err := readRecord(path)
	if err != nil {
		return err
	}
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		trusted, err := vouching(w, c.StringSlice("key"))
		if err != nil {
			return err
		}
		id, err := r.Vouched(trusted)
		if err != nil {
			return recordFault(path, err)
		}
		return p.printSigned("verified", recordSigned{path, r.Digest, id})
	})
}

func (p *program) printSigned(what string, s recordSigned) error {
	if p.json {
		return p.printJSON(s)
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s: key %s vouches for it\n", what, s.Digest, s.Key)
	return err
}
