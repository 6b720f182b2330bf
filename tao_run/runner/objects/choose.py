"""Chooses the client for object stores: obstore wherever it can be had, else boto3."""

from __future__ import annotations

from typing import Mapping

from .. import log
from ..packages import Packages
from .base import ObjectStore, settings_from

OBSTORE = "obstore>=0.8,<1"
BOTO3 = "boto3>=1.20,<2"
_VARIABLE = "TAO_RUN_OBJECT_CLIENT"


def open_store(env: Mapping[str, str], packages: Packages) -> ObjectStore:
    """The store that `env` describes. TAO_RUN_OBJECT_CLIENT (obstore or boto3) forces a client.

    Raises NoClient if neither client can be had.
    """
    wanted = env.get(_VARIABLE, "")
    settings = settings_from(env)
    if wanted != "boto3" and packages.find("obstore", OBSTORE):
        from .obstore_client import ObstoreClient

        store: ObjectStore = ObstoreClient(settings)
    elif wanted != "obstore" and packages.find("boto3", BOTO3):
        from .boto_client import BotoClient

        store = BotoClient(settings)
    else:
        raise packages.error("s3:// needs the Python package obstore or boto3")
    log.say(f"object store {settings.where} through {store.name}")
    return store
