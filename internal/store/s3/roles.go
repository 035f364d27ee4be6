package s3

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Credentials of a role, from servers that know who asks by where it runs.

// source is a server of credentials.
type source struct{ name, hint string }

// ask sends one request to a source, and returns the body of its answer.
func (l login) ask(ctx context.Context, s source, method, address string, header http.Header, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(network.Call(ctx), method, address, strings.NewReader(body))
	if err != nil {
		return nil, urls.Refusal(s.name+" has an address that cannot be read", s.hint)
	}
	r.Header = header
	resp, err := l.http.Do(r)
	if err != nil {
		text, _, _ := words.Problem(ctx, err)
		return nil, problem(s.name+": "+text, s.hint)
	}
	text, err := network.ReadAll(resp)
	if err != nil {
		return nil, problem(s.name+" does not end its answer", s.hint)
	}
	if resp.StatusCode == http.StatusOK {
		return text, nil
	}
	said := &lease.StoreError{Err: fmt.Errorf("%s answers with HTTP status %d", s.name, resp.StatusCode), Hint: s.hint}
	said.Permanent = resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests
	var e struct {
		Error struct{ Code, Message string }
	}
	if xml.Unmarshal(text, &e) == nil && e.Error.Code != "" {
		said.Err = fmt.Errorf("%w: %s (%s)", said.Err, lease.Cut(e.Error.Message, 200), e.Error.Code)
	}
	return nil, said
}

// webIdentity exchanges a token that says who this is, as in a pod of EKS, for credentials of a role.
func (l login) webIdentity(ctx context.Context, file, role, session string) (c credential, err error) {
	sts := source{"STS, for the token in " + file, "see that the role trusts the issuer of the token: aws sts assume-role-with-web-identity"}
	token, err := os.ReadFile(file)
	if err != nil {
		return c, urls.Refusal("the token for web identity cannot be read: "+err.Error(), "correct AWS_WEB_IDENTITY_TOKEN_FILE, or web_identity_token_file of the profile")
	}
	if role == "" {
		return c, urls.Refusal("there is a token for web identity, and no role", "set AWS_ROLE_ARN, or role_arn of the profile")
	}
	address := cmp.Or(l.env("AWS_ENDPOINT_URL_STS"), "https://sts."+l.region+"."+domain(l.region))
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role},
		"RoleSessionName": {cmp.Or(session, "leaderrun")}, "WebIdentityToken": {string(bytes.TrimSpace(token))},
	}
	text, err := l.ask(ctx, sts, http.MethodPost, strings.TrimSuffix(address, "/")+"/", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, form.Encode())
	if err != nil {
		return c, err
	}
	var answer struct {
		Result struct {
			Credentials struct {
				AccessKeyId, SecretAccessKey, SessionToken string
				Expiration                                 time.Time
			}
		} `xml:"AssumeRoleWithWebIdentityResult"`
	}
	if xml.Unmarshal(text, &answer) != nil {
		return c, problem(sts.name+" answers something else than credentials", sts.hint)
	}
	is := answer.Result.Credentials
	return credential{is.AccessKeyId, is.SecretAccessKey, is.SessionToken, is.Expiration, "STS, for the role " + role}, nil
}

// local are the hosts that a container may ask without TLS, besides those of the loopback.
var local = []string{"169.254.170.2", "169.254.170.23", "fd00:ec2::23"}

// container asks the agent of ECS or EKS for the credentials of this task or pod.
func (l login) container(ctx context.Context) (c credential, err error) {
	agent := source{"the container's source of credentials", "see the variables AWS_CONTAINER_CREDENTIALS_… and AWS_CONTAINER_AUTHORIZATION_TOKEN…, and the role of the task or pod"}
	address := l.env("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if path := l.env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		address = "http://" + local[0] + path
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && !(u.Scheme == "http" && isLocal(u.Hostname())) {
		return c, urls.Refusal(agent.name+" is neither at this host nor one of https", agent.hint)
	}
	header := http.Header{}
	token := l.env("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := l.env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return c, urls.Refusal("the token for "+agent.name+" cannot be read: "+err.Error(), agent.hint)
		}
		token = strings.TrimSpace(string(text))
	}
	if token != "" {
		header.Set("Authorization", token)
	}
	return l.role(ctx, agent, address, header)
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return slices.Contains(local, host) || host == "localhost" || ip.IsLoopback()
}

// instance asks EC2's metadata (IMDSv2) for the credentials of this instance's role.
func (l login) instance(ctx context.Context) (c credential, err error) {
	const limit = 2 * time.Second // elsewhere nobody answers
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	imds := source{"no credentials are named, and EC2's metadata", hintCredentials}
	base := strings.TrimSuffix(cmp.Or(l.env("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "http://169.254.169.254"), "/") + "/latest/"
	token, err := l.ask(ctx, imds, http.MethodPut, base+"api/token", http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"300"}}, "")
	if err != nil {
		return c, err
	}
	header := http.Header{"X-Aws-Ec2-Metadata-Token": {string(token)}}
	name, err := l.ask(ctx, imds, http.MethodGet, base+"meta-data/iam/security-credentials/", header, "")
	if err != nil {
		return c, err
	}
	role, _, _ := strings.Cut(strings.TrimSpace(string(name)), "\n")
	return l.role(ctx, source{"EC2's metadata", hintCredentials}, base+"meta-data/iam/security-credentials/"+url.PathEscape(role), header)
}

// role reads credentials in the form of an agent or an instance.
func (l login) role(ctx context.Context, s source, address string, header http.Header) (c credential, err error) {
	text, err := l.ask(ctx, s, http.MethodGet, address, header, "")
	if err != nil {
		return c, err
	}
	var token struct{ Token string }
	if json.Unmarshal(text, &c) != nil || json.Unmarshal(text, &token) != nil || c.ID == "" {
		return c, problem(s.name+" answers something else than credentials", s.hint)
	}
	c.Token, c.from = token.Token, s.name
	return c, nil
}
