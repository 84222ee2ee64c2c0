package bucket_test

import (
	"crypto/rand"
	"os"
	"testing"

	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/registry/bucket/buckettest"
)

// openGS opens a bucket of the double; uploads have parts of 256 KiB.
func openGS(t *testing.T, store *buckettest.Store) *bucket.GS {
	t.Helper()
	b, err := bucket.NewGS("bucket", bucket.GSOptions{Endpoint: store.URL, PartSize: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGS(t *testing.T) {
	store := buckettest.NewGS(t)
	buckettest.Run(t, openGS(t, store), buckettest.Options{})
	if n := store.Uploads(); n != 0 {
		t.Errorf("%d unfinished uploads remain", n)
	}
}

// TestGSServer runs the suite against the server of the environment (make buckets):
// MM_BUCKETS_GS is the name of an empty bucket of STORAGE_EMULATOR_HOST.
func TestGSServer(t *testing.T) {
	name := os.Getenv("MM_BUCKETS_GS")
	if name == "" {
		t.Skip("MM_BUCKETS_GS names no bucket of a server; make buckets starts one")
	}
	b, err := bucket.OpenGS(bucket.Address{Scheme: "gs", Bucket: name})
	if err != nil {
		t.Fatal(err)
	}
	buckettest.Run(t, b, buckettest.Options{Prefix: rand.Text() + "/", Large: 17 << 20, Folder: true})
}
