package main

import (
	"cmp"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/registry/bucket/azure"
	"mm-abi.org/mm/registry/bucket/gs"
	"mm-abi.org/mm/registry/bucket/s3"
	"mm-abi.org/mm/workspace"
)

// openers lists the drivers of object stores.
func openers() bucket.Openers {
	return bucket.Openers{"file": bucket.OpenLocal, "s3": s3.Open, "gs": gs.Open, "azure": azure.Open}
}

func (p *program) bucketCommand() *cli.Command {
	return &cli.Command{
		Name: "bucket", Usage: "copy files to and from object stores: s3, gs, azure, file",
		Subcommands: []*cli.Command{
			{
				Name: "ls", Usage: "list the objects below a prefix", ArgsUsage: "ADDRESS",
				Flags: []cli.Flag{p.jsonFlag()}, Action: p.bucketList,
			},
			{
				Name: "stat", Usage: "describe an object", ArgsUsage: "ADDRESS",
				Flags: []cli.Flag{p.jsonFlag()}, Action: p.bucketStat,
			},
			{
				Name: "cp", Usage: "copy a file, a folder, an object or a prefix", ArgsUsage: "FROM TO",
				Description: "A source that ends in / is copied with all below it. An interrupted copy is continued. What is\n" +
					"equal already is not copied. Each object has its SHA-256 in its metadata, compared on each read.",
				Flags: []cli.Flag{
					p.jsonFlag(),
					&cli.BoolFlag{Name: "if-absent", Usage: "fail if an object exists with other content"},
					&cli.BoolFlag{Name: "require-sha256", Usage: "fail if an object has no SHA-256 in its metadata"},
				},
				Action: p.bucketCopy,
			},
			{
				Name: "rm", Usage: "delete objects", ArgsUsage: "ADDRESS…",
				Flags: []cli.Flag{p.jsonFlag()}, Action: p.bucketRemove,
			},
		},
	}
}

// openBucket opens the bucket of an address.
func openBucket(text string) (bucket.Bucket, bucket.Address, error) {
	a, err := bucket.ParseAddress(text)
	if err != nil {
		return nil, a, bucket.Fault(text, err)
	}
	b, err := openers().Open(a)
	return b, a, bucket.Fault(text, err)
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
	return p.printLine(info, "%s\nsize:     %d\nmodified: %s\netag:     %s\nsha256:   %s", a.String(), info.Size,
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
				p.say("unchanged %s", to)
				return
			}
			p.say("copied %s to %s (%s)", from, to, size(info.Size))
		},
	})
	if err != nil {
		return bucket.Fault(from, err)
	}
	if done.Unsummed > 0 {
		p.say("%d objects had no sha256 to compare", done.Unsummed)
	}
	return p.printLine(done, "%d of %d files copied, %s", done.Moved, done.Files, size(done.Bytes))
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
		p.say("deleted %s", a)
	}
	return p.printOr(removed, func() error { return nil })
}
