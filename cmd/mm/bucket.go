package main

import (
	"cmp"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/workspace"
)

// openers lists the drivers of object stores.
func openers() bucket.Openers {
	return bucket.Openers{"file": bucket.OpenLocal, "s3": bucket.OpenS3, "gs": bucket.OpenGS, "azure": bucket.OpenAzure}
}

// objects returns the source of data in buckets.
func objects() *bucket.Source { return bucket.NewSource(openers()) }

// openBucket opens the bucket of an address.
func openBucket(text string) (bucket.Bucket, bucket.Address, error) {
	a, err := bucket.ParseAddress(text)
	if err != nil {
		return nil, a, bucket.Fault(text, err)
	}
	b, err := openers().Open(a)
	return b, a, bucket.Fault(text, err)
}

// bucketFiles returns the objects below an address as files.
func bucketFiles(address string) (bucket.Files, error) {
	b, place, err := openBucket(address)
	if err != nil {
		return bucket.Files{}, err
	}
	s, err := sessions()
	return bucket.Files{Bucket: b, Place: place, Sessions: s}, err
}

func (p *program) bucketList(c *cli.Context) error {
	b, a, err := openBucket(c.Args().First())
	if err != nil {
		return err
	}
	var list []bucket.Info
	for info, err := range b.List(c.Context, a.Key) {
		if err != nil {
			return bucket.Fault(a.String(), err)
		}
		list = append(list, info)
	}
	return printRows(p, list, []string{"SIZE", "MODIFIED", "ADDRESS"}, func(i bucket.Info) []string {
		return []string{size(i.Size), i.Modified.Format(time.RFC3339), a.At(i.Key).String()}
	})
}

func (p *program) bucketStat(c *cli.Context) error {
	b, a, err := openBucket(c.Args().First())
	if err != nil {
		return err
	}
	info, err := b.Stat(c.Context, a.Key)
	if err != nil {
		return bucket.Fault(a.String(), err)
	}
	return p.PrintLine(info, "%s\nsize:     %d\nmodified: %s\netag:     %s\nsha256:   %s", a.String(), info.Size,
		info.Modified.Format(time.RFC3339), info.ETag, cmp.Or(info.SHA256, "none"))
}

func (p *program) bucketCopy(c *cli.Context) error {
	sessions, err := sessions()
	if err != nil {
		return err
	}
	from, to := c.Args().Get(0), c.Args().Get(1)
	done, err := bucket.Copy(c.Context, from, to, bucket.CopyOptions{
		Openers: openers(), IfAbsent: c.Bool("if-absent"), Digested: c.Bool("require-sha256"), Sessions: sessions,
		Done: func(from, to string, info bucket.Info, moved bool) {
			if !moved {
				p.Note("unchanged %s", to)
				return
			}
			p.Note("copied %s to %s (%s)", from, to, size(info.Size))
		},
	})
	if err != nil {
		return bucket.Fault(from, err)
	}
	if done.Unsummed > 0 {
		p.Note("%d objects had no sha256 to compare", done.Unsummed)
	}
	return p.PrintLine(done, "%d of %d files copied, %s", done.Moved, done.Files, size(done.Bytes))
}

// sessions returns the states of interrupted uploads.
func sessions() (bucket.Sessions, error) {
	home, err := workspace.DefaultHome()
	return bucket.Sessions{Dir: filepath.Join(home, "uploads")}, err
}

func (p *program) bucketRemove(c *cli.Context) error {
	removed := []string{}
	for _, text := range c.Args().Slice() {
		b, a, err := openBucket(text)
		if err == nil {
			err = bucket.Fault(text, b.Delete(c.Context, a.Key))
		}
		if err != nil {
			return err
		}
		removed = append(removed, a.String())
		p.Note("deleted %s", a)
	}
	return p.PrintOr(removed, func() error { return nil })
}

func (p *program) bucketPromote(c *cli.Context) error {
	b, root, err := openBucket(c.Args().First())
	if err != nil {
		return err
	}
	opt := bucket.PromoteOptions{Stage: c.String("to"), Paths: c.Args().Slice()[2:]}
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		s, err := w.Signer(c.String("key"), p.password)
		if err != nil {
			return err
		}
		opt.Signer, opt.KeyID, opt.Keys = s.Key, s.Key.Public().KeyID(), []bucket.Key{s.Key.Public()}
		pointer, err := bucket.Promote(c.Context, b, root, c.Args().Get(1), opt)
		if err != nil {
			return bucket.Fault(root.String(), err)
		}
		return p.printPointer(pointer)
	})
}

// printPointer prints a pointer with its files.
func (p *program) printPointer(v bucket.Pointer) error {
	return p.PrintOr(v, func() error {
		p.Note("%s %s@%s: %s by key %.12s", v.Stage, v.Name, v.Version, diag.Count(len(v.Files), "file"), v.Key)
		for _, f := range v.Files {
			if err := p.Line("%s  %s  %s", f.SHA256, f.Path, size(f.Size)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *program) bucketFetch(c *cli.Context) error {
	b, root, err := openBucket(c.Args().First())
	if err != nil {
		return err
	}
	stage, version, _ := strings.Cut(c.Args().Get(1), "/")
	name, _, err := bucket.ParseVersion(version)
	if err != nil {
		return bucket.Fault(root.String(), err)
	}
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		public, err := w.Vouching("bucket/"+name, c.StringSlice("key"), time.Now())
		if err != nil {
			return err
		}
		var keys []bucket.Key
		for _, k := range public {
			keys = append(keys, k)
		}
		pointer, err := bucket.ReadPointer(c.Context, b, root, stage, version, keys)
		if err == nil {
			err = bucket.Fetch(c.Context, b, root, pointer, c.Args().Get(2))
		}
		if err != nil {
			return bucket.Fault(root.String(), err)
		}
		return p.printPointer(pointer)
	})
}
