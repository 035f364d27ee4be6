package s3

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// credential is a key pair, and a token if it is for a while.
type credential struct {
	ID     string `json:"AccessKeyId"`
	Secret string `json:"SecretAccessKey"`
	Token  string `json:"SessionToken"`
	// Expires is zero if the credential is for good.
	Expires time.Time `json:"Expiration"`
	from    string    // for messages
}

// login gives the credentials for requests. The first source that AWS' variables and files name is
// asked, in the order of AWS' own programs.
type login struct {
	*network.Login[credential]
	env    env
	region string
	http   *http.Client // of the other sources, which are not at the endpoint
}

func newLogin(e env, region string, dial network.Dial) login {
	return login{new(network.Login[credential]), e, region, network.HTTP(dial, nil)}
}

// ahead is how long before their end credentials are replaced.
const ahead = 5 * time.Minute

func (l login) get(ctx context.Context) (credential, error) {
	c, err := l.Get(ctx, ahead, func(ctx context.Context) (credential, time.Time, error) {
		c, err := l.find(ctx)
		return c, c.Expires, err
	})
	if err != nil && errors.Is(err, ctx.Err()) {
		err = problem("no credentials yet: their source has not answered", "see what aws sts get-caller-identity says here")
	}
	return c, err
}

// problem is an error that waiting may mend.
func problem(text, hint string) error { return &lease.StoreError{Err: errors.New(text), Hint: hint} }

func (l login) find(ctx context.Context) (c credential, err error) {
	p, errProfile := l.env.profile()
	switch id, token, role := l.env("AWS_ACCESS_KEY_ID"), l.env("AWS_WEB_IDENTITY_TOKEN_FILE"), l.env("AWS_ROLE_ARN"); {
	case id != "":
		c, err = l.env.credential()
	case token != "":
		c, err = l.webIdentity(ctx, token, role, l.env("AWS_ROLE_SESSION_NAME"))
	case errProfile != nil:
		return c, errProfile
	case p.values["role_arn"] != "" && p.values["web_identity_token_file"] == "":
		return c, p.unable()
	case p.values["aws_access_key_id"] != "":
		c = credential{ID: p.values["aws_access_key_id"], Secret: p.values["aws_secret_access_key"], Token: p.values["aws_session_token"], from: "the profile " + p.name}
	case p.values["web_identity_token_file"] != "":
		c, err = l.webIdentity(ctx, p.values["web_identity_token_file"], p.values["role_arn"], p.values["role_session_name"])
	case p.values["credential_process"] != "":
		c, err = process(ctx, p.values["credential_process"], p.name)
	case p.values["sso_session"] != "" || p.values["sso_start_url"] != "":
		return c, p.unable()
	case l.env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "" || l.env("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "":
		c, err = l.container(ctx)
	case strings.EqualFold(l.env("AWS_EC2_METADATA_DISABLED"), "true"):
		return c, urls.Refusal("no credentials are named", hintCredentials)
	default:
		c, err = l.instance(ctx)
	}
	if err == nil && (c.ID == "" || c.Secret == "") {
		err = urls.Refusal("the credentials from "+cmp.Or(c.from, "there")+" lack a key or its secret", hintCredentials)
	}
	return c, err
}

// credential returns the credentials of the environment. No message may show them, so each says what is
// easily overlooked in them.
func (e env) credential() (credential, error) {
	c := credential{ID: e("AWS_ACCESS_KEY_ID"), Secret: e("AWS_SECRET_ACCESS_KEY"), Token: e("AWS_SESSION_TOKEN"), from: "the environment"}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		if refused := location.CheckSecret(e(name)); refused != nil {
			return c, urls.Refusal(name+" "+refused.Problem, refused.Hint)
		}
		if oddity := location.Oddity(e(name)); oddity != "" {
			c.from += ", where " + name + strings.TrimPrefix(oddity, ": it")
		}
	}
	return c, nil
}

// unable refuses a profile whose credentials another one's, or a person's login, must give.
func (p profile) unable() error {
	return urls.Refusal("the profile "+p.name+" needs role_arn or sso, which leaderrun cannot do",
		"let another profile ask AWS' program: credential_process = aws configure export-credentials --profile "+p.name)
}

const hintCredentials = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give this host a role: docs/store-s3.md has all sources"

// process runs a program that prints credentials.
func process(ctx context.Context, command, name string) (c credential, err error) {
	from := "the credential_process of the profile " + name
	text, err := network.Output(exec.CommandContext(ctx, "sh", "-c", command))
	if err != nil {
		return c, problem(from+" failed: "+err.Error(), "run it by hand")
	}
	var version struct{ Version int }
	if json.Unmarshal(text, &version) != nil || version.Version != 1 || json.Unmarshal(text, &c) != nil {
		return c, urls.Refusal(from+" prints no credentials of version 1", "run it by hand")
	}
	c.from = from
	return c, nil
}
