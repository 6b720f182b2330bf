"""Launch checks: token, workspace and network told apart; node group, shape and mounted path exist and are allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tao_run.errors import CredentialRefused, NotFound, PermissionRefused, TaoRunError
from tao_run.jobs.model import Check
from tao_run.platforms.lepton.demands import Demands

if TYPE_CHECKING:
    from tao_run.jobs.request import JobRequest
    from tao_run.platforms.lepton.adapter import LeptonSDK

_SKIPPED = "not looked at: the workspace cannot be asked"


class Checks:
    """The checks of platform lepton for a request, or in general without one. Reads only."""

    def __init__(self, platform: LeptonSDK, request: JobRequest | None) -> None:
        self._platform = platform
        self._request = request

    def run(self) -> list[Check]:
        """All checks; those that need the workspace are skipped if it cannot be reached."""
        access = self._access()
        if self._request is None:
            return [access]
        if access.status != "ok":
            return [access, Check("lepton.place", "skipped", _SKIPPED)]
        return [access, *self._place(self._request), self._image(self._request)]

    def _access(self) -> Check:
        name = "lepton.access"
        options = self._request.for_platform() if self._request else {}
        try:
            account = self._platform.current_account(options)
            self._platform.workspace(account).api.get("/workspace")
        except CredentialRefused as error:
            return Check(name, "failed", f"bad token: {error.message}", error.hint)
        except PermissionRefused as error:
            return Check(name, "failed", f"no access: {error.message}", error.hint)
        except NotFound:
            detail = "wrong workspace: there is none of this id for this token"
            return Check(name, "failed", detail, "check LEPTON_WORKSPACE_ID and LEPTON_WORKSPACE_URL")
        except TaoRunError as error:
            return Check(name, "failed", error.message, error.hint or "check the network and LEPTON_WORKSPACE_URL")
        return Check(name, "ok", f"workspace {account.partition('@')[0]} answers and takes the token")

    def _place(self, request: JobRequest) -> list[Check]:
        """Node group, shape and path, as submission will choose them."""
        try:
            place = self._platform.place(request, self._platform.account(request))
        except TaoRunError as error:
            return [Check("lepton.place", "failed", error.message, error.hint or "see `tao-run resources`")]
        checks = [Check("lepton.place", "ok", f"{place.group}, shape {place.shape}")]
        if place.mount is not None:
            detail = f"{place.mount['from']}:{place.mount['path']} at {place.mount_path}, allowed by its permissions"
            checks.append(Check("lepton.mount", "ok", detail))
        checks += [Check("lepton.mount", "skipped", note) for note in place.notes]
        try:
            more = Demands(self._platform, request, place).checks()
        except TaoRunError as error:
            more = [Check("lepton.place", "failed", error.message, error.hint)]
        return [*checks, *more]

    def _image(self, request: JobRequest) -> Check:
        from tao_run.platforms.lepton.body import is_ngc_image

        if not is_ngc_image(request.image or ""):
            return Check("lepton.image", "skipped", "not an image of nvcr.io: whether it can be pulled is not known")
        if self._platform.credentials.has("NGC_KEY"):
            return Check("lepton.image", "ok", "NGC_KEY is set: a pull secret is made for the job")
        return Check("lepton.image", "skipped", "NGC_KEY is not set: only public images of nvcr.io can be pulled")
