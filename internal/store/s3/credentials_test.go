//go:build linux

package s3

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// write writes a file of AWS' programs, and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// sources are servers of credentials, with the answers of AWS'.
func sources(t *testing.T, expires time.Time) (addr string, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	answer := fmt.Sprintf(`{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":"ROLE","SecretAccessKey":"s3cret","Token":"session","Expiration":"%s"}`, expires.UTC().Format(time.RFC3339))
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		refuse := func() { w.WriteHeader(http.StatusForbidden) }
		switch r.Method + " " + r.URL.Path {
		case "PUT /latest/api/token":
			if r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") == "" {
				refuse()
				return
			}
			_, _ = io.WriteString(w, "imds-token")
		case "GET /latest/meta-data/iam/security-credentials/":
			_, _ = io.WriteString(w, "jobs")
		case "GET /latest/meta-data/iam/security-credentials/jobs":
			if r.Header.Get("X-aws-ec2-metadata-token") != "imds-token" {
				refuse()
				return
			}
			_, _ = io.WriteString(w, answer)
		case "GET /v1/credentials":
			if r.Header.Get("Authorization") != "pod-token" {
				refuse()
				return
			}
			_, _ = io.WriteString(w, answer)
		case "POST /":
			if text := string(body); !strings.Contains(text, "WebIdentityToken=jwt") || !strings.Contains(text, "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fjobs") || !strings.Contains(text, "Action=AssumeRoleWithWebIdentity") {
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error></ErrorResponse>`)
				return
			}
			_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
				<Credentials><AccessKeyId>ROLE</AccessKeyId><SecretAccessKey>s3cret</SecretAccessKey><SessionToken>session</SessionToken><Expiration>%s</Expiration></Credentials>
				</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, expires.UTC().Format(time.RFC3339))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}), asked
}

// Each source is asked where AWS' own programs ask it, in their order.
func TestSources(t *testing.T) {
	t.Parallel()
	expires := time.Now().Add(time.Hour).Truncate(time.Second)
	addr, _ := sources(t, expires)
	dir := t.TempDir()
	jwt := write(t, dir, "jwt", "jwt\n")
	config := write(t, dir, "config", `# comments
[default]
region = eu-west-1
s3 =
  aws_access_key_id = nested
[profile both]
aws_access_key_id = CONFIG
aws_secret_access_key = s3cret
[ profile program ]
credential_process = printf '{"Version":1,"AccessKeyId":"PROGRAM","SecretAccessKey":"s3cret","SessionToken":"t","Expiration":"%s"}' `+expires.Format(time.RFC3339)+`
[profile pod]
web_identity_token_file = `+jwt+`
role_arn = arn:aws:iam::1:role/jobs
[profile sso]
sso_session = corp
[profile chain]
role_arn = arn:aws:iam::1:role/jobs
source_profile = both
[profile keyed]
aws_access_key_id = KEYED
aws_secret_access_key = s3cret
role_arn = arn:aws:iam::1:role/jobs
credential_source = Environment
[profile failing]
credential_process = echo 'no such user' >&2; exit 3
[profile odd]
credential_process = echo '{"Version":2}'
[profile half]
aws_access_key_id = HALF
`)
	shared := write(t, dir, "credentials", "[default]\naws_access_key_id=SHARED\naws_secret_access_key=s3cret\n[both]\naws_access_key_id = FILE\naws_secret_access_key=s3cret\n;aws_session_token=x\n")
	for name, c := range map[string]struct {
		variables map[string]string
		want      string // the id and the token, or what the error says
	}{
		"environment":                    {map[string]string{"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_SESSION_TOKEN": "t", "AWS_PROFILE": "both"}, "ENV t"},
		"half an environment":            {map[string]string{"AWS_ACCESS_KEY_ID": "ENV"}, "the environment lack a key or its secret"},
		"a line break of echo":           {map[string]string{"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "s3cret\n"}, "AWS_SECRET_ACCESS_KEY has a line break in it"},
		"the default profile":            {map[string]string{}, "SHARED "},
		"the file of credentials":        {map[string]string{"AWS_PROFILE": "both"}, "FILE "},
		"the file of settings":           {map[string]string{"AWS_PROFILE": "both", "AWS_SHARED_CREDENTIALS_FILE": "/does/not/exist"}, "CONFIG "},
		"a program":                      {map[string]string{"AWS_PROFILE": "program"}, "PROGRAM t"},
		"a program that fails":           {map[string]string{"AWS_PROFILE": "failing"}, "no such user"},
		"a program of version 2":         {map[string]string{"AWS_PROFILE": "odd"}, "no credentials of version 1"},
		"a key without a secret":         {map[string]string{"AWS_PROFILE": "half"}, "the profile half lack a key or its secret"},
		"sso":                            {map[string]string{"AWS_PROFILE": "sso"}, "needs role_arn or sso"},
		"a chain of roles":               {map[string]string{"AWS_PROFILE": "chain"}, "needs role_arn or sso"},
		"keys that are for a role":       {map[string]string{"AWS_PROFILE": "keyed"}, "needs role_arn or sso"},
		"an unknown profile":             {map[string]string{"AWS_PROFILE": "gone"}, "have no profile gone"},
		"a file that is none":            {map[string]string{"AWS_CONFIG_FILE": dir}, "cannot be read"},
		"web identity":                   {map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": jwt, "AWS_ROLE_ARN": "arn:aws:iam::1:role/jobs", "AWS_ENDPOINT_URL_STS": "http://" + addr}, "ROLE session"},
		"web identity of a profile":      {map[string]string{"AWS_PROFILE": "pod", "AWS_ENDPOINT_URL_STS": "http://" + addr}, "ROLE session"},
		"web identity without a role":    {map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": jwt}, "no role"},
		"web identity without its token": {map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "/does/not/exist", "AWS_ROLE_ARN": "x"}, "cannot be read"},
		"a role that does not trust it":  {map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": jwt, "AWS_ROLE_ARN": "x", "AWS_ENDPOINT_URL_STS": "http://" + addr}, "Not authorized to perform"},
		"a container":                    {map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://" + addr + "/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "pod-token"}, "ROLE session"},
		"a container's token in a file":  {map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://" + addr + "/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": write(t, dir, "token", "pod-token\n")}, "ROLE session"},
		"a container without its token":  {map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://" + addr + "/v1/credentials"}, "HTTP status 403"},
		"a container's source elsewhere": {map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://192.0.2.1/v1/credentials"}, "neither at this host nor one of https"},
		"an instance":                    {map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://" + addr}, "ROLE session"},
		"an instance without a role":     {map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://" + serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })}, "HTTP status 404"},
		"no instance":                    {map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"}, "connection refused"},
		"no source":                      {map[string]string{"AWS_EC2_METADATA_DISABLED": "true"}, "no credentials are named"},
	} {
		t.Run(name, func(t *testing.T) {
			of := map[string]string{"AWS_CONFIG_FILE": config, "AWS_SHARED_CREDENTIALS_FILE": shared}
			if strings.Contains(name, "container") || strings.Contains(name, "instance") || name == "no source" {
				of["AWS_SHARED_CREDENTIALS_FILE"] = "/does/not/exist"
			}
			for variable, value := range c.variables {
				of[variable] = value
			}
			got, err := newLogin(variables(of), "eu-west-1", nil).get(bounded(t))
			if err != nil {
				failure, ok := err.(*lease.StoreError) //nolint:errorlint // it is never wrapped
				if !ok || failure.Hint == "" || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %s", err, c.want)
				}
				networktest.ForPeople(t, err.Error(), failure.Hint)
				return
			}
			if is := got.ID + " " + got.Token; is != c.want || got.Secret != "s3cret" || got.from == "" {
				t.Errorf("%+v, want %s", got, c.want)
			}
			if temporary := got.ID == "ROLE" || got.ID == "PROGRAM"; got.Expires.IsZero() == temporary || temporary && !got.Expires.Equal(expires) {
				t.Errorf("it expires at %s", got.Expires)
			}
		})
	}
}

// A service of root has no home: AWS' files are not those of its working directory.
func TestNoHome(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Succeed(t, os.Mkdir(".aws", 0o700))
	write(t, ".aws", "config", "[default]\ncredential_process = false\n")
	for _, home := range []string{"", "."} {
		if p, err := variables(map[string]string{"HOME": home}).profile(); err != nil || p.found {
			t.Errorf("home %q: %+v, %v", home, p, err)
		}
	}
}

// Credentials are replaced before they end, and when they are no longer accepted: a leader goes on.
func TestCredentialsAreReplaced(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	dir := t.TempDir()
	says := func(secret string, expires time.Time) {
		write(t, dir, "status", fmt.Sprintf(`{"Version":1,"AccessKeyId":%q,"SecretAccessKey":%q,"Expiration":%q}`, script.S3ID, secret, expires.UTC().Format(time.RFC3339)))
	}
	s := openAs(t, Options{URL: at(b.Addr)}, variables(map[string]string{
		"AWS_CONFIG_FILE": write(t, dir, "config", "[default]\ncredential_process = echo asked >>"+dir+"/asked; cat "+dir+"/status\n"),
	}))
	s.Instant.Settle = 0
	asked := func() int { return strings.Count(must.Read(t, filepath.Join(dir, "asked")), "asked") }
	says(script.S3Secret, time.Now().Add(time.Hour))
	l := grant(t, s, candidate("k"))
	renew(t, s, l)
	if asked() != 1 {
		t.Errorf("asked %d times", asked())
	}
	says("another", time.Now().Add(time.Hour))
	s.login.Forget()
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "credential_process of the profile default", "get-caller-identity")
	says(script.S3Secret, time.Now().Add(ahead-2*time.Second))
	renew(t, s, l) // they were not accepted, so it asks
	before := asked()
	must.Await(t, "the next question", func() bool {
		renew(t, s, l) // with the ones that end soon, and asks meanwhile
		return asked() > before
	})
}

// A source that hangs does not hold up a call for longer than its context.
func TestSourceHangs(t *testing.T) {
	t.Parallel()
	s := openAs(t, Options{URL: at("127.0.0.1:1")}, variables(map[string]string{
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://" + networktest.NeverAnswers(t),
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.Inspect(ctx, "k")
	networktest.WantError(t, err, false, "no credentials yet", "get-caller-identity")
}
