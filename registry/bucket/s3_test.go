package bucket_test

import (
	"crypto/rand"
	"os"
	"testing"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/registry/bucket/buckettest"
)

// openS3 opens a bucket of the double; uploads have parts of 256 KiB.
func openS3(t *testing.T, store *buckettest.Store) *bucket.S3 {
	t.Helper()
	b, err := bucket.NewS3("bucket", bucket.S3Options{Endpoint: store.URL, Region: "us-east-1", PartSize: 256 << 10,
		Credentials: credentials.NewStaticV4("id", "secret", "")})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestS3(t *testing.T) {
	store := buckettest.NewS3(t)
	buckettest.Run(t, openS3(t, store), buckettest.Options{})
	if n := store.Uploads(); n != 0 {
		t.Errorf("%d unfinished uploads remain", n)
	}
}

// TestS3Server runs the suite against the server of the environment (make buckets):
// MM_BUCKETS_S3 is the name of an empty bucket of AWS_ENDPOINT_URL.
func TestS3Server(t *testing.T) {
	name := os.Getenv("MM_BUCKETS_S3")
	if name == "" {
		t.Skip("MM_BUCKETS_S3 names no bucket of a server; make buckets starts one")
	}
	b, err := bucket.OpenS3(bucket.Address{Scheme: "s3", Bucket: name})
	if err != nil {
		t.Fatal(err)
	}
	buckettest.Run(t, b, buckettest.Options{Prefix: rand.Text() + "/", Large: 17 << 20, Folder: true})
}
