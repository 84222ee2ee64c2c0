package main

import (
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

// folderFlags are the flags of signatures over plain folders.
func folderFlags(usage string) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "oms", Usage: usage},
		&cli.StringFlag{Name: "signature", Usage: "with --oms: `FILE` of the signature", DefaultText: "DIR/" + sign.FolderSignature},
	}
}

// folderSigned is the output of mm sign --oms and mm verify --oms.
type folderSigned struct {
	Signature string   `json:"signature"`
	Files     int      `json:"files"`
	Ignored   []string `json:"ignored"`
	Key       string   `json:"key"`
}

// signatureFile returns the folder and the signature file of the command line.
func signatureFile(c *cli.Context) (dir, file string) {
	dir, file = c.Args().First(), c.String("signature")
	if file == "" {
		file = filepath.Join(dir, sign.FolderSignature)
	}
	return dir, file
}

func (p *program) signFolder(c *cli.Context) error {
	dir, file := signatureFile(c)
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		s, err := w.Signer(c.String("key"), p.password)
		if err != nil {
			return err
		}
		f, err := workspace.SignFolder(c.Context, dir, file, s.Key)
		if err != nil {
			return err
		}
		return p.printFolder("signed", file, f)
	})
}

func (p *program) verifyFolder(c *cli.Context) error {
	dir, file := signatureFile(c)
	opt := workspaceOptions(c, dir)
	return p.inWorkspace(opt, func(w *workspace.Workspace) error {
		name, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		keys, err := w.Vouching("local/"+filepath.Base(name), c.StringSlice("key"), time.Now())
		if err != nil {
			return err
		}
		f, err := workspace.VerifyFolder(c.Context, dir, file, keys...)
		if err != nil {
			return coded{err, exitRefused}
		}
		return p.printFolder("verified", file, f)
	})
}

func (p *program) printFolder(verb, file string, f sign.Folder) error {
	v := folderSigned{Signature: file, Files: len(f.Files), Ignored: listed(f.Ignored), Key: f.Key.KeyID()}
	return p.printLine(v, "%s %s: %s by key %.12s; ignored: %v", verb, file, count(v.Files, "file"), v.Key, v.Ignored)
}
